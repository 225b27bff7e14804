package rsync

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
)

// kubeconfigVariable names a kubeconfig of a real cluster, with all rights, that tests
// may write to. "testbed up" of scripts/testbed starts one.
const kubeconfigVariable = "EMCO_TEST_KUBECONFIG"

// yard is the service at work on a real cluster, in a namespace of the test's own.
type yard struct {
	*testing.T
	contexts *appcontext.Store
	admin    dynamic.Interface
	ns       string
	head     appcontext.Head
}

var (
	jobs       = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

func newYard(t *testing.T) *yard {
	t.Helper()
	path := os.Getenv(kubeconfigVariable)
	if path == "" {
		t.Skip(kubeconfigVariable + " is not set: this test needs a real API server")
	}
	kubeconfig, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	y := newYardAt(t, kubeconfig)
	if y.admin, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	own := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": y.ns}}}
	if _, err := y.admin.Resource(namespaces).Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.admin.Resource(namespaces).Delete(context.Background(), y.ns, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return y
}

// newYardAt has the service work on the cluster of a kubeconfig.
func newYardAt(t *testing.T, kubeconfig []byte) *yard {
	t.Helper()
	y := &yard{T: t, contexts: contexttest.New(t), ns: fmt.Sprintf("yard-%08x", rand.Uint32())}
	db := resourcetest.DB(t)
	_, err := db.Create(t.Context(), store.Write{
		Key: "cluster-providers/edge/clusters/c1", Body: []byte(`{"metadata":{"name":"c1"},"spec":{"gitOps":{}}}`), Secret: seal.Secret(kubeconfig),
	})
	if err != nil {
		t.Fatal(err)
	}
	y.serve(New(Parts{
		DB: db, Contexts: y.contexts, Backends: backends.Backends(), Kube: kube.New(kube.Options{}), Member: shards.Member{Holder: "test", TTL: time.Minute},
		Retry: pair.Retry{First: 50 * time.Millisecond, Longest: 300 * time.Millisecond}, Workers: 2, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}))
	return y
}

// serve runs the service until the test ends.
func (y *yard) serve(s *Service) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	y.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			y.Errorf("the service ended with %v", err)
		}
	})
}

// bundle parses manifests and stores their content; those with a hook's annotation are
// hooks.
func (y *yard) bundle(text string) appcontext.Digest {
	y.Helper()
	all, err := manifest.Parse("test.yaml", []byte(text))
	if err != nil {
		y.Fatal(err)
	}
	key, value := manifest.DeploymentLabel("7", "web")
	all, err = manifest.Complete(all, manifest.Defaults{Namespace: y.ns, Labels: map[string]string{key: value}, Stamp: true})
	if err != nil {
		y.Fatal(err)
	}
	var b appcontext.Bundle
	blobs := map[appcontext.Digest][]byte{}
	for _, o := range all {
		blobs[o.Digest] = o.Content
		ref := appcontext.Ref{ID: o.ID, Digest: o.Digest, Stamp: o.Stamp()}
		if events := o.Annotations()["helm.sh/hook"]; events != "" {
			b.Hooks = append(b.Hooks, appcontext.HookRef{Ref: ref, Events: strings.Split(events, ",")})
		} else {
			b.Objects = append(b.Objects, ref)
		}
	}
	if err := y.contexts.PutBlobs(y.Context(), blobs); err != nil {
		y.Fatal(err)
	}
	d, err := y.contexts.PutBundle(y.Context(), b)
	if err != nil {
		y.Fatal(err)
	}
	return d
}

// wish makes a bundle the next revision of deployment 7; without one, nothing is desired.
func (y *yard) wish(bundle appcontext.Digest) {
	y.Helper()
	to := y.head
	if bundle == "" {
		to.Gone = true
		y.step(to, nil)
		return
	}
	to.UID, to.LastRev, to.Gone = "7", to.LastRev+1, false
	y.step(to, &appcontext.Operation{ID: fmt.Sprint("op", to.LastRev), Rev: to.LastRev})
	places := []appcontext.Placement{{Cluster: "edge+c1", Apps: map[string]appcontext.Digest{"web": bundle}}}
	head, err := y.contexts.Publish(y.Context(), y.head, appcontext.Revision{Number: to.LastRev, Namespace: "default", Apps: []appcontext.App{{Name: "web"}}},
		func(yield func(appcontext.Placement) bool) { yield(places[0]) })
	if err != nil {
		y.Fatal(err)
	}
	y.head = head
}

func (y *yard) step(to appcontext.Head, op *appcontext.Operation) {
	y.Helper()
	head, err := y.contexts.ChangeHead(y.Context(), y.head, to, nil, op)
	if err != nil {
		y.Fatal(err)
	}
	y.head = head
}

// eventually asks until there is no complaint.
func (y *yard) eventually(what string, complaint func() string) {
	y.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(4 * time.Minute)
	for {
		last := complaint()
		if last == "" {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			y.Fatalf("%s: %s", what, last)
		}
	}
}

// becomes waits until the pair is in a state: "Applied", "gone", or the reason why it is
// blocked or fails.
func (y *yard) becomes(want string) {
	y.Helper()
	y.eventually("the pair", func() string {
		pairs, err := y.contexts.PairsAt(y.Context(), []appcontext.PairKey{{Cluster: "edge+c1", Deployment: "7", App: "web"}})
		if err != nil {
			y.Fatal(err)
		}
		got := "gone"
		if len(pairs) > 0 {
			got = pairs[0].Blocked + pairs[0].Error
			if got == "" {
				got = string(pairs[0].Phase)
			}
		}
		if strings.HasPrefix(got, want) {
			return ""
		}
		return fmt.Sprintf("got %q, want %q", got, want)
	})
}

// there returns which of the objects are on the cluster, but for those that are going.
func (y *yard) there(names ...string) string {
	y.Helper()
	var out []string
	for _, name := range names {
		for kind, r := range map[string]schema.GroupVersionResource{"Job": jobs, "ConfigMap": configMaps} {
			u, err := y.admin.Resource(r).Namespace(y.ns).Get(y.Context(), name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				y.Fatal(err)
			}
			if err == nil && u.GetDeletionTimestamp() == nil {
				out = append(out, kind+" "+name)
			}
		}
	}
	return strings.Join(out, ", ")
}

// ends sets the status of a Job that has ended: no controller runs it here.
func (y *yard) ends(name, condition, message string) {
	y.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	conditions := []any{}
	for _, c := range []string{map[string]string{"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[condition], condition} {
		conditions = append(conditions, map[string]any{"type": c, "status": "True", "message": message, "lastTransitionTime": now})
	}
	status := map[string]any{"conditions": conditions, "startTime": now}
	if condition == "Complete" {
		status["completionTime"], status["succeeded"] = now, int64(1)
	}
	y.eventually("the status of "+name, func() string {
		u, err := y.admin.Resource(jobs).Namespace(y.ns).Get(y.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		u.Object["status"] = status
		if _, err := y.admin.Resource(jobs).Namespace(y.ns).UpdateStatus(y.Context(), u, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// A stop ends a request that is under way; it does not wait for a cluster that does not answer.
func TestStopEndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	asked, left := make(chan string, 100), make(chan string, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		<-r.Context().Done()
		left <- r.URL.Path
	}))
	t.Cleanup(server.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	y := newYardAt(t, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"x","cluster":{"server":%q,"certificate-authority-data":%q}}],`+
		`"users":[{"name":"x","user":{"token":"t"}}],"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}]}`, server.URL, ca))
	y.wish(y.bundle("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n"))
	<-asked
	to := y.head
	to.Stopped = true
	y.step(to, nil)
	y.becomes(pair.Stopped)
	<-left
}

// Hooks run on a cluster that is reached directly as on one that pulls: one after the
// other, and none that failed counts.
func TestHooksRunOnADirectCluster(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	const (
		app     = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {v: %q}\n"
		migrate = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}}\n" +
			"spec: {suspend: true, backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, args: [%q]}]}}}\n"
		sweep = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: sweep, annotations: {helm.sh/hook: post-delete}}\n" +
			"spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n"
	)
	version := func(v string) appcontext.Digest { return y.bundle(fmt.Sprintf(app+migrate+sweep, v, v)) }
	y.wish(version("one"))
	y.becomes("waits for pre-install hook Job migrate: InProgress")
	if got := y.there("web", "migrate"); got != "Job migrate" {
		t.Errorf("there is %s while the hook runs", got)
	}
	y.ends("migrate", "Complete", "")
	y.becomes("Applied")
	if got := y.there("web", "migrate"); got != "ConfigMap web, Job migrate" {
		t.Errorf("there is %s; a hook stays until it runs again", got)
	}

	y.wish(version("two")) // the Job cannot be changed: it has to go first
	y.becomes("waits for pre-upgrade hook Job migrate: InProgress")
	y.ends("migrate", "Failed", "no such table")
	y.becomes("pre-upgrade hook Job migrate failed: no such table")
	u, err := y.admin.Resource(configMaps).Namespace(y.ns).Get(t.Context(), "web", metav1.GetOptions{})
	if v, _, _ := unstructured.NestedString(u.Object, "data", "v"); err != nil || v != "one" {
		t.Errorf("the app is %q, %v; want that of before the failed hook", v, err)
	}
	y.wish(version("three"))
	y.becomes("waits for pre-upgrade hook Job migrate: InProgress")
	y.ends("migrate", "Complete", "")
	y.becomes("Applied")

	y.wish("")
	y.becomes("waits for post-delete hook Job sweep: InProgress")
	if got := y.there("web", "migrate", "sweep"); got != "Job sweep" {
		t.Errorf("there is %s when the app is gone", got)
	}
	y.ends("sweep", "Complete", "")
	y.becomes("gone")
	y.eventually("nothing is left", func() string { return y.there("web", "migrate", "sweep") })
}
