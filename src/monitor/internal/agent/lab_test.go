package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
	"github.com/emco-orchestrator/emco/src/monitor/internal/agent"
	"github.com/emco-orchestrator/emco/src/monitor/internal/config"
)

// kubeconfigVariable names a kubeconfig of a real cluster, with all rights, that tests
// may write to. "testbed up" of scripts/testbed starts one.
const kubeconfigVariable = "EMCO_TEST_KUBECONFIG"

// deployments is what is shipped, from this directory.
const deployments = "../../../../deployments/monitor"

// lab is a real cluster on which the monitor is installed as shipped, and a real Git
// server. The monitor has the rights of its account, on both.
type lab struct {
	*testing.T
	admin      dynamic.Interface
	proxy      *cuttableProxy
	kubeconfig string
	git        *gittest.Server
	bare       gittest.Bare
	host       *plain.Host
	ns         string
	label      string // of this test's app
	cluster    string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	path := os.Getenv(kubeconfigVariable)
	if path == "" {
		t.Skip(kubeconfigVariable + " is not set: this test needs a real API server")
	}
	admin, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	admin.QPS = -1
	id := rand.Uint32()
	l := &lab{T: t, ns: fmt.Sprintf("monitor-%08x", id), label: fmt.Sprintf("%d-web", id), cluster: fmt.Sprintf("edge+c%08x", id)}
	if l.admin, err = dynamic.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	l.install()
	l.create(namespaces, "", object("v1", "Namespace", l.ns, nil))
	l.proxy = newCuttableProxy(t, admin.Host)
	l.writeKubeconfig(admin)
	l.serveGit()
	return l
}

var (
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	accounts    = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	deploys     = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	states      = schema.GroupVersionResource{Group: "k8splugin.io", Version: "v1alpha1", Resource: "resourcebundlestates"}
	pluralsOf   = map[string]string{"NetworkPolicy": "networkpolicies"}
	unnecessary = map[string]bool{"Deployment": true} // the monitor runs in this process
)

// install applies the shipped YAML with all rights.
func (l *lab) install() {
	l.Helper()
	for _, file := range []string{"monitor.yaml", "crd.yaml"} {
		text, err := os.ReadFile(filepath.Join(deployments, file))
		if err != nil {
			l.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			u := &unstructured.Unstructured{}
			err := decoder.Decode(u)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				l.Fatal(err)
			}
			if !unnecessary[u.GetKind()] {
				l.apply(u)
			}
		}
	}
}

func (l *lab) apply(u *unstructured.Unstructured) {
	l.Helper()
	plural := pluralsOf[u.GetKind()]
	if plural == "" {
		plural = strings.ToLower(u.GetKind()) + "s"
	}
	gv, err := schema.ParseGroupVersion(u.GetAPIVersion())
	if err != nil {
		l.Fatal(err)
	}
	_, err = l.at(gv.WithResource(plural), u.GetNamespace()).Apply(l.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		l.Fatalf("apply %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// writeKubeconfig makes a kubeconfig of the monitor's account, over a line that can be cut.
func (l *lab) writeKubeconfig(admin *rest.Config) {
	l.Helper()
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": "emco-monitor"},
		"spec": map[string]any{"expirationSeconds": int64(3600)},
	}}
	got, err := l.at(accounts, "emco-monitor").Create(l.Context(), request, metav1.CreateOptions{}, "token")
	if err != nil {
		l.Fatal(err)
	}
	token, _, _ := unstructured.NestedString(got.Object, "status", "token")
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: l.proxy.url, CertificateAuthorityData: admin.CAData, CertificateAuthority: admin.CAFile, TLSServerName: admin.ServerName}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	l.kubeconfig = filepath.Join(l.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, l.kubeconfig); err != nil {
		l.Fatal(err)
	}
}

// serveGit starts a server on which the edge may write status and nothing else.
func (l *lab) serveGit() {
	l.Helper()
	srv, err := gittest.Serve(l.TempDir(),
		gittest.User{Name: "emco", Token: "e", Write: true},
		gittest.User{Name: "edge", Token: "x", Write: true, Only: "refs/heads/status/"})
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = srv.Close() })
	if l.bare, err = srv.Seed(l.Context(), "fleet", "main"); err != nil {
		l.Fatal(err)
	}
	if err := l.bare.Config(l.Context(), "receive.denyNonFastForwards", "false"); err != nil {
		l.Fatal(err)
	}
	l.git, l.host = srv, plain.New(plain.Options{})
	l.Cleanup(func() { _ = l.host.Close() })
}

// edge is the repository as the monitor may use it, control as the control plane may.
func (l *lab) edge() git.Repo { return git.Repo{URL: l.git.URL("fleet"), User: "edge", Token: "x"} }

func (l *lab) control() git.Repo { return git.Repo{URL: l.git.URL("fleet"), User: "emco", Token: "e"} }

// monitor runs the monitor; stop ends it and fails the test if it does not end well.
func (l *lab) monitor(change ...func(*config.Config)) (stop func()) {
	l.Helper()
	repo := l.edge()
	c, err := config.Read([]string{
		"-cluster", l.cluster, "-kubeconfig", l.kubeconfig, "-git.url", repo.URL, "-git.user", repo.User,
		"-status.interval", "200ms", "-status.heartbeat", "2s", "-alive.file", filepath.Join(l.TempDir(), "alive"),
	}, func(name string) string { return map[string]string{"GIT_TOKEN": repo.Token.Reveal()}[name] }, io.Discard)
	if err != nil {
		l.Fatal(err)
	}
	for _, f := range change {
		f(&c)
	}
	log := &bytes.Buffer{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx, c, slog.New(slog.NewTextHandler(log, nil))) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					l.Errorf("the monitor ends with %v", err)
				}
				if l.Failed() {
					l.Logf("its log:\n%s", log)
				}
			case <-time.After(20 * time.Second):
				l.Error("the monitor does not end")
			}
		})
	}
	l.Cleanup(stop)
	return stop
}

// report reads the last report of the cluster.
func (l *lab) report() (status.Report, error) {
	branch := status.Branch(status.DefaultPrefix, l.cluster)
	found, err := l.host.Branches(l.Context(), l.control(), branch, func(string, git.Hash) bool { return true }, git.Limit{Object: status.MaxSize, Files: 4})
	if err != nil {
		return status.Report{}, err
	}
	if found[branch].Err != nil {
		return status.Report{}, found[branch].Err
	}
	return status.Decode(found[branch].Files[status.File])
}

// eventually tries until there is no error.
func (l *lab) eventually(what string, try func() error) {
	l.Helper()
	var err error
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	l.Fatalf("%s: %v", what, err)
}

// await waits for a report with these objects in the test's app: "kind/name=Status", sorted.
func (l *lab) await(want ...string) status.Report {
	l.Helper()
	var last status.Report
	l.eventually("report", func() error {
		r, err := l.report()
		if err != nil {
			return err
		}
		last = r
		if got := statusLines(appOf(r, l.label)); !slices.Equal(got, want) {
			return fmt.Errorf("report %d has %q, want %q", r.Seq, got, want)
		}
		return nil
	})
	return last
}

func appOf(r status.Report, label string) status.App {
	for _, a := range r.Apps {
		if a.Label == label {
			return a
		}
	}
	return status.App{}
}

func statusLines(a status.App) []string {
	var out []string
	for _, o := range a.Objects {
		name := o.Name
		if o.Kind == "Pod" || o.Kind == "Job" && strings.Count(name, "-") > 1 {
			name = "*" // chosen by the cluster
		}
		out = append(out, o.Kind+"/"+name+"="+o.Status)
	}
	slices.Sort(out)
	return out
}

func object(apiVersion, kind, name string, members map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	for k, v := range members {
		u.Object[k] = v
	}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetName(name)
	return u
}

// ours labels and stamps an object as the control plane does.
func (l *lab) ours(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetLabels(map[string]string{status.DeploymentLabel: l.label})
	notes := u.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	notes[status.ContentAnnotation] = "stamp-of-" + u.GetName()
	u.SetAnnotations(notes)
	return u
}

// deployment is a Deployment of one Pod.
func (l *lab) deployment(name string) *unstructured.Unstructured {
	labels := map[string]any{"app": name, status.DeploymentLabel: l.label}
	return l.ours(object("apps/v1", "Deployment", name, map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
		},
	}}))
}

func (l *lab) create(r schema.GroupVersionResource, ns string, u *unstructured.Unstructured) {
	l.Helper()
	l.eventually("create "+u.GetName(), func() error { // a new kind is served a moment later
		_, err := l.at(r, ns).Create(l.Context(), u, metav1.CreateOptions{})
		return err
	})
	l.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		background := metav1.DeletePropagationBackground
		if err := l.at(r, ns).Delete(ctx, u.GetName(), metav1.DeleteOptions{PropagationPolicy: &background}); err != nil && !apierrors.IsNotFound(err) {
			l.Errorf("delete %s: %v", u.GetName(), err)
		}
	})
}

func (l *lab) delete(r schema.GroupVersionResource, ns, name string) {
	l.Helper()
	if err := l.at(r, ns).Delete(l.Context(), name, metav1.DeleteOptions{}); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) at(r schema.GroupVersionResource, ns string) dynamic.ResourceInterface {
	if ns == "" {
		return l.admin.Resource(r)
	}
	return l.admin.Resource(r).Namespace(ns)
}

// state reads a ResourceBundleState's status.
func (l *lab) state(name string) (map[string]any, error) {
	u, err := l.at(states, l.ns).Get(l.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	body, _, err := unstructured.NestedMap(u.Object, "status")
	return body, err
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &cuttableProxy{server: u.Host, url: "https://" + listener.Addr().String(), listener: listener}
	l.wg.Go(l.accept)
	t.Cleanup(func() {
		_ = l.listener.Close()
		l.set(true)
		l.wg.Wait()
	})
	return l
}

func (l *cuttableProxy) accept() {
	for {
		in, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.wg.Go(func() { l.join(in) })
	}
}

func (l *cuttableProxy) join(in net.Conn) {
	out, err := net.Dial("tcp", l.server)
	if err != nil {
		_ = in.Close()
		return
	}
	l.mu.Lock()
	l.open = append(l.open, in, out)
	if l.down {
		_, _ = in.Close(), out.Close()
	}
	l.mu.Unlock()
	l.wg.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
	_, _ = io.Copy(in, out)
	_ = in.Close()
}

// set cuts the connections, or accepts new ones.
func (l *cuttableProxy) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	if down {
		for _, c := range l.open {
			_ = c.Close()
		}
		l.open = nil
	}
}
