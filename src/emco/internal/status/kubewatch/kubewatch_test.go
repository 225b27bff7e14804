package kubewatch_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/kubewatch"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
)

// kubeconfigVariable names a kubeconfig with all rights on a real cluster, which the tests
// use if it is set. "testbed up" of scripts/testbed starts such a cluster.
const kubeconfigVariable = "EMCO_TEST_KUBECONFIG"

// testCluster is a cluster with a namespace for the test, and a watcher that reaches it through a
// connection that the test can cut.
type testCluster struct {
	t       *testing.T
	admin   dynamic.Interface
	ns      string
	line    *cuttableProxy
	watcher *kubewatch.Watcher
	reports chan appcontext.Report
}

// clusterConfig reaches the real cluster, or an API server in memory if there is none.
func clusterConfig(t *testing.T) (*rest.Config, error) {
	if path := os.Getenv(kubeconfigVariable); path != "" {
		return clientcmd.BuildConfigFromFlags("", path)
	}
	return clientcmd.RESTConfigFromKubeConfig(kubetest.Start(t).Kubeconfig())
}

func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	config, err := clusterConfig(t)
	if err != nil {
		t.Fatal(err)
	}
	l := &testCluster{t: t, ns: fmt.Sprintf("watch-%08x", rand.Uint32()), reports: make(chan appcontext.Report, 100)}
	if l.admin, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	l.create(namespaces, manifest.ID{Version: "v1", Kind: "Namespace", Name: l.ns}, "", nil)
	l.line = newCuttableProxy(t, config.Host)
	l.run(config)
	return l
}

// run starts the watcher and, when the test is over, checks that it ends.
func (l *testCluster) run(config *rest.Config) {
	l.t.Helper()
	through := rest.CopyConfig(config)
	through.Host = l.line.url
	through.QPS = -1
	client, err := dynamic.NewForConfig(through)
	if err != nil {
		l.t.Fatal(err)
	}
	api, err := discovery.NewDiscoveryClientForConfig(through)
	if err != nil {
		l.t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapperWithContext(memory.NewMemCacheClientWithContext(api))
	l.watcher = kubewatch.New(kubewatch.Client{Dynamic: client, Mapper: mapper}, kubewatch.Options{
		Cluster: "p+c", Debounce: 20 * time.Millisecond, AnswerTimeout: time.Second,
		Deliver: func(ctx context.Context, r appcontext.Report) {
			select {
			case l.reports <- r:
			case <-ctx.Done():
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.watcher.Run(ctx) }()
	l.t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				l.t.Errorf("Run: %v", err)
			}
		case <-time.After(10 * time.Second):
			l.t.Error("Run does not end")
		}
	})
}

var (
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

var shop = appcontext.PairKey{Cluster: "p+c", Deployment: "42", App: "shop"}

func (l *testCluster) configMap(name string) manifest.ID {
	return manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: l.ns, Name: name}
}

// create puts an object there, for an app of deployment 42 unless app is "".
func (l *testCluster) create(r schema.GroupVersionResource, id manifest.ID, app string, members map[string]any) {
	l.t.Helper()
	u := &unstructured.Unstructured{Object: members}
	if members == nil {
		u.Object = map[string]any{}
	}
	u.SetAPIVersion(id.APIVersion())
	u.SetKind(id.Kind)
	u.SetName(id.Name)
	u.SetNamespace(id.Namespace)
	if app != "" {
		key, value := manifest.DeploymentLabel("42", app)
		u.SetLabels(map[string]string{key: value})
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := l.at(r, id.Namespace).Create(l.t.Context(), u, metav1.CreateOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsNotFound(err) || time.Now().After(deadline) { // a new kind is served a moment later
			l.t.Fatalf("create %s: %v", id, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := l.at(r, id.Namespace).Delete(ctx, id.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			l.t.Errorf("delete %s: %v", id, err)
		}
	})
}

func (l *testCluster) at(r schema.GroupVersionResource, ns string) dynamic.ResourceInterface {
	if ns == "" {
		return l.admin.Resource(r)
	}
	return l.admin.Resource(r).Namespace(ns)
}

func (l *testCluster) delete(r schema.GroupVersionResource, id manifest.ID) {
	l.t.Helper()
	if err := l.at(r, id.Namespace).Delete(l.t.Context(), id.Name, metav1.DeleteOptions{}); err != nil {
		l.t.Fatalf("delete %s: %v", id, err)
	}
}

// await waits for a report with these statuses, in order of the tracked objects, and
// returns it.
func (l *testCluster) await(want ...string) appcontext.Report {
	l.t.Helper()
	var last []string
	limit := time.After(20 * time.Second)
	for {
		select {
		case r := <-l.reports:
			last = nil
			for _, s := range r.Resources {
				last = append(last, s.Status)
			}
			if slices.Equal(last, want) {
				return r
			}
		case <-limit:
			l.t.Fatalf("the last report has %q, want %q", last, want)
		}
	}
}

// cuttableProxy is a TCP proxy whose connections a test can cut and restore.
type cuttableProxy struct {
	url, server string
	listener    net.Listener
	wg          sync.WaitGroup

	mu   sync.Mutex
	down bool
	open []net.Conn
}

func newCuttableProxy(t *testing.T, host string) *cuttableProxy {
	t.Helper()
	u, err := url.Parse(host)
	if err != nil {
		t.Fatal(err)
	}
	l := &cuttableProxy{server: u.Host}
	l.listen(t, "127.0.0.1:0")
	l.url = "https://" + l.listener.Addr().String()
	t.Cleanup(func() {
		l.listener.Close()
		l.set(true)
		l.wg.Wait()
	})
	return l
}

// listen takes connections; without it they are refused.
func (l *cuttableProxy) listen(t *testing.T, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l.listener = listener
	l.wg.Go(func() { l.accept(listener) })
}

func (l *cuttableProxy) accept(listener net.Listener) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		l.wg.Go(func() { l.join(in) })
	}
}

func (l *cuttableProxy) join(in net.Conn) {
	out, err := net.Dial("tcp", l.server)
	if err != nil {
		in.Close()
		return
	}
	l.mu.Lock()
	l.open = append(l.open, in, out)
	down := l.down
	l.mu.Unlock()
	if down {
		in.Close()
		out.Close()
	}
	l.wg.Go(func() { io.Copy(out, in); out.Close() })
	io.Copy(in, out)
	in.Close()
}

// set cuts the connections, or accepts new ones.
func (l *cuttableProxy) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	if down {
		for _, c := range l.open {
			c.Close()
		}
		l.open = nil
	}
}

func TestObjectsAreFollowedFromAbsentToGone(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	web := manifest.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: l.ns, Name: "web"}
	l.watcher.Track(kubewatch.App{Key: shop, Objects: []manifest.ID{l.configMap("a"), web}})
	if r := l.await("NotFound", "NotFound"); r.Key != shop || r.At.IsZero() {
		t.Errorf("report is of %v at %s, want of the app and with a time", r.Key, r.At)
	}
	l.create(configMaps, l.configMap("a"), "shop", nil)
	l.await("Current", "NotFound")
	l.create(deployments, web, "shop", map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{
			"nodeSelector": map[string]any{"no": "such-node"},
			"containers":   []any{map[string]any{"name": "c", "image": "i"}},
		}},
	}})
	if r := l.await("Current", "InProgress"); r.Resources[1].Reason == "" || r.Resources[0].Reason != "" {
		t.Errorf("reasons are %q and %q, want one for what is not ready alone", r.Resources[0].Reason, r.Resources[1].Reason)
	}
	l.delete(configMaps, l.configMap("a"))
	l.await("NotFound", "InProgress")
}

// No controller runs the Job: the test writes its status.
func TestAHookIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	id := manifest.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: l.ns, Name: "migrate"}
	jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	l.watcher.Track(kubewatch.App{Key: shop, Objects: []manifest.ID{id}})
	l.await("NotFound")
	l.create(jobs, id, "shop", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"helm.sh/hook": "pre-install", "emco/content": "c0ffee"}},
		"spec": map[string]any{"suspend": true, "template": map[string]any{"spec": map[string]any{
			"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "i"}},
		}}},
	})
	if r := l.await("InProgress"); r.Resources[0].Content != "c0ffee" {
		t.Errorf("content %q, want the stamp", r.Resources[0].Content)
	}
	now := time.Now().UTC().Format(time.RFC3339)
	var conditions []any
	for _, c := range []string{"FailureTarget", "Failed"} {
		conditions = append(conditions, map[string]any{"type": c, "status": "True", "reason": "BackoffLimitExceeded", "message": "no such table", "lastTransitionTime": now})
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		u, err := l.at(jobs, l.ns).Get(t.Context(), id.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		u.Object["status"] = map[string]any{"startTime": now, "conditions": conditions}
		if _, err = l.at(jobs, l.ns).UpdateStatus(t.Context(), u, metav1.UpdateOptions{}); err == nil {
			break
		}
		if !apierrors.IsConflict(err) || time.Now().After(deadline) { // the controller writes, too
			t.Fatal(err)
		}
	}
	if r := l.await("Failed"); r.Resources[0].Reason != "no such table" {
		t.Errorf("reason %q", r.Resources[0].Reason)
	}
}

func TestAnObjectOfAnotherAppIsNotOurs(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	l.create(configMaps, l.configMap("theirs"), "other", nil)
	l.create(configMaps, l.configMap("unlabelled"), "", nil)
	l.create(configMaps, l.configMap("ours"), "shop", nil)
	l.watcher.Track(kubewatch.App{Key: shop, Objects: []manifest.ID{l.configMap("theirs"), l.configMap("unlabelled"), l.configMap("ours")}})
	l.await("NotFound", "NotFound", "Current")
}

// A definition that two apps bring carries the label of one of them, and is of both.
func TestADefinitionIsOfAllThatNameIt(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	group := l.ns + ".example.org"
	open := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	crd := manifest.ID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "gadgets." + group}
	l.watcher.Track(kubewatch.App{Key: shop, Objects: []manifest.ID{crd}})
	l.await("NotFound")
	l.create(crds, crd, "other", map[string]any{"spec": map[string]any{
		"group": group, "scope": "Namespaced",
		"names":    map[string]any{"kind": "Gadget", "plural": "gadgets"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": open}},
	}})
	l.await("Current")
	l.delete(crds, crd)
	l.await("NotFound")
}

func TestAKindThatComesLaterIsFound(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	group := l.ns + ".example.org"
	widget := manifest.ID{Group: group, Version: "v1", Kind: "Widget", Namespace: l.ns, Name: "w"}
	app := kubewatch.App{Key: shop, Objects: []manifest.ID{widget}}
	l.watcher.Track(app)
	if r := l.await("NotFound"); !strings.Contains(r.Resources[0].Reason, "does not know this kind") {
		t.Errorf("reason is %q, want that the kind is not known", r.Resources[0].Reason)
	}
	open := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	crd := manifest.ID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets." + group}
	l.create(crds, crd, "", map[string]any{"spec": map[string]any{
		"group": group, "scope": "Namespaced",
		"names":    map[string]any{"kind": "Widget", "plural": "widgets"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": open}},
	}})
	widgets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	l.create(widgets, widget, "shop", map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "False", "reason": "Baking", "message": "not yet"},
	}}})
	l.watcher.Track(app)
	if r := l.await("InProgress"); r.Resources[0].Reason != "not yet" {
		t.Errorf("reason is %q, want that of the condition", r.Resources[0].Reason)
	}
	u, err := l.at(widgets, l.ns).Get(t.Context(), "w", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	u.Object["status"] = map[string]any{"conditions": "this is no list"}
	if _, err := l.at(widgets, l.ns).Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.await("Unknown")
	l.delete(crds, crd)
	l.await("NotFound")
}

func TestACutLineMeansUnknownSinceThen(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	l.create(configMaps, l.configMap("a"), "shop", nil)
	l.create(configMaps, l.configMap("b"), "shop", nil)
	l.watcher.Track(kubewatch.App{Key: shop, Objects: []manifest.ID{l.configMap("a"), l.configMap("b")}})
	l.await("Current", "Current")
	before := time.Now().UTC().Truncate(time.Second)
	l.line.set(true)
	r := l.await("Unknown", "Unknown")
	since, _, _ := strings.Cut(strings.TrimPrefix(r.Resources[0].Reason, "no answer since "), ";")
	at, err := time.Parse(time.RFC3339, since)
	if err != nil || at.Before(before) || !strings.HasSuffix(r.Resources[0].Reason, "was Current") {
		t.Errorf("reason is %q, want since when, after %s, and what was", r.Resources[0].Reason, before)
	}
	l.delete(configMaps, l.configMap("b"))
	l.line.set(false)
	l.await("Current", "NotFound")
}

func TestAClusterThatWasNeverReachedIsUnknown(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	address := l.line.listener.Addr().String()
	l.line.listener.Close()
	l.create(configMaps, l.configMap("a"), "shop", nil)
	l.watcher.Track(kubewatch.App{Key: shop, Objects: []manifest.ID{l.configMap("a")}})
	if r := l.await("Unknown"); strings.Contains(r.Resources[0].Reason, "since") { // F08: there was no answer before
		t.Errorf("reason is %q", r.Resources[0].Reason)
	}
	l.line.listen(t, address)
	l.await("Current")
}

func TestAForgottenAppIsNotReported(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	other := shop
	other.App = "other"
	l.watcher.Track(kubewatch.App{Key: shop, Objects: []manifest.ID{l.configMap("a")}})
	l.await("NotFound")
	l.watcher.Track(kubewatch.App{Key: other, Objects: []manifest.ID{l.configMap("b")}})
	l.await("NotFound")
	l.watcher.Forget(shop)
	l.create(configMaps, l.configMap("a"), "shop", nil)
	l.create(configMaps, l.configMap("b"), "other", nil)
	if r := l.await("Current"); r.Key != other {
		t.Errorf("report is of %v, want of the other app", r.Key)
	}
	// Tracked again, it is reported again, although nothing changed in between.
	l.watcher.Track(kubewatch.App{Key: shop, Objects: []manifest.ID{l.configMap("a")}})
	if r := l.await("Current"); r.Key != shop {
		t.Errorf("report is of %v, want of the app that is tracked again", r.Key)
	}
}
