package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
)

// kubeconfigVariable names a kubeconfig with all rights on a real cluster, which the tests
// use if it is set. "testbed up" of scripts/testbed starts such a cluster.
const kubeconfigVariable = "EMCO_TEST_KUBECONFIG"

// testCluster is a cluster with a namespace for the test: a real one, or an API server in memory.
type testCluster struct {
	t          *testing.T
	kubeconfig []byte
	sink       *kube.Sink
	cluster    *kube.Cluster
	admin      dynamic.Interface
	ns         string
}

func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	var kubeconfig []byte
	if path := os.Getenv(kubeconfigVariable); path == "" {
		kubeconfig = kubetest.Start(t).Kubeconfig()
	} else {
		var err error
		if kubeconfig, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	l := &testCluster{t: t, kubeconfig: kubeconfig, sink: kube.New(kube.Options{}), ns: fmt.Sprintf("kube-%08x", rand.Uint32())}
	if l.cluster, err = l.sink.Connect(kubeconfig); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(l.cluster.Close)
	rest, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if l.admin, err = dynamic.NewForConfig(rest); err != nil {
		t.Fatal(err)
	}
	l.create(namespaces, object(namespace(l.ns), nil, nil))
	return l
}

var (
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	roles       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
)

func namespace(name string) manifest.ID {
	return manifest.ID{Version: "v1", Kind: "Namespace", Name: name}
}

func (l *testCluster) configMap(name string) manifest.ID {
	return manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: l.ns, Name: name}
}

// object returns an object with labels and members.
func object(id manifest.ID, labels map[string]string, members map[string]any) manifest.Object {
	metadata := map[string]any{"name": id.Name, "labels": labels}
	if id.Namespace != "" {
		metadata["namespace"] = id.Namespace
	}
	tree := map[string]any{"apiVersion": id.APIVersion(), "kind": id.Kind, "metadata": metadata}
	maps.Copy(tree, members)
	content, err := json.Marshal(tree)
	if err != nil {
		panic(err)
	}
	return manifest.Object{ID: id, Content: append(content, '\n'), Digest: manifest.DigestOf(content)}
}

// appObject returns an object as the renderer makes it for an app of deployment 42.
func appObject(app string, id manifest.ID, members map[string]any) manifest.Object {
	key, value := manifest.DeploymentLabel("42", app)
	return object(id, map[string]string{key: value}, members)
}

// create creates an object without the sink, and deletes it after the test.
func (l *testCluster) create(r schema.GroupVersionResource, o manifest.Object) {
	l.t.Helper()
	var u unstructured.Unstructured
	if err := json.Unmarshal(o.Content, &u.Object); err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.at(r, o.ID.Namespace).Create(l.t.Context(), &u, metav1.CreateOptions{FieldManager: "somebody"}); err != nil {
		l.t.Fatalf("create %s: %v", o.ID, err)
	}
	l.cleanup(r, o.ID)
}

func (l *testCluster) cleanup(r schema.GroupVersionResource, id manifest.ID) {
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := l.at(r, id.Namespace).Delete(ctx, id.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
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

// get returns an object, nil if it does not exist or is being deleted.
func (l *testCluster) get(r schema.GroupVersionResource, ns, name string) *unstructured.Unstructured {
	l.t.Helper()
	u, err := l.at(r, ns).Get(l.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		l.t.Fatalf("get %s: %v", name, err)
	}
	if u.GetDeletionTimestamp() != nil {
		return nil
	}
	return u
}

// apply applies the state of an app. A failure fails the test.
func (l *testCluster) apply(st kube.AppState) kube.Result {
	l.t.Helper()
	st.Deployment = "42"
	result, err := l.cluster.Apply(l.t.Context(), st)
	if err != nil {
		l.t.Fatalf("Apply: %v", err)
	}
	return result
}

func ids(objects ...manifest.Object) []manifest.ID {
	out := make([]manifest.ID, len(objects))
	for i, o := range objects {
		out[i] = o.ID
	}
	return out
}

func TestReach(t *testing.T) {
	t.Parallel()
	if err := newTestCluster(t).cluster.Reach(t.Context()); err != nil {
		t.Errorf("Reach: %v", err)
	}
}

func TestApplyingAgainChangesNothing(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	web := manifest.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: l.ns, Name: "web"}
	template := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "b"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
	}
	want := []manifest.Object{
		appObject("app", l.configMap("a"), map[string]any{"data": map[string]any{"k": "v"}}),
		appObject("app", web, map[string]any{"spec": map[string]any{"replicas": 0, "selector": map[string]any{"matchLabels": map[string]any{"a": "b"}}, "template": template}}),
	}
	if got := l.apply(kube.AppState{App: "app", Desired: want, Previous: ids(want...)}); got.Applied != 2 || len(got.Findings) > 0 {
		t.Errorf("Apply = %+v, want 2 applied and no findings", got)
	}
	before := l.get(configMaps, l.ns, "a").GetResourceVersion()
	if got := l.apply(kube.AppState{App: "app", Desired: want, Previous: ids(want...)}); got.Applied != 2 || got.Pruned != 0 {
		t.Errorf("Apply again = %+v, want 2 applied and none pruned", got)
	}
	if after := l.get(configMaps, l.ns, "a").GetResourceVersion(); after != before {
		t.Errorf("applying again made version %s of %s", after, before)
	}
	if l.get(deployments, l.ns, "web") == nil {
		t.Error("the Deployment is not there")
	}
}

func TestObjectsThatLeftAreDeletedUnlessTakenOver(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	stay, leave, taken := appObject("app", l.configMap("stay"), nil), appObject("app", l.configMap("leave"), nil), appObject("app", l.configMap("taken"), nil)
	l.apply(kube.AppState{App: "app", Desired: []manifest.Object{stay, leave, taken}})
	other := l.apply(kube.AppState{App: "other", Desired: []manifest.Object{appObject("other", taken.ID, nil)}})
	if len(other.Findings) != 1 || !strings.Contains(other.Findings[0], "was held by emco/deployment-id=42-app") {
		t.Errorf("taking an object of another app over finds %q, want its last owner", other.Findings)
	}
	gone := manifest.ID{Group: "gone.example.org", Version: "v1", Kind: "Gone", Namespace: l.ns, Name: "x"}
	got := l.apply(kube.AppState{App: "app", Desired: []manifest.Object{stay}, Previous: append(ids(stay, leave, taken), leave.ID, gone)})
	if got.Pruned != 1 || len(got.Findings) != 1 || !strings.Contains(got.Findings[0], "taken no longer has the label") {
		t.Errorf("Apply = %+v, want one pruned and a finding about what was taken", got)
	}
	for name, there := range map[string]bool{"stay": true, "leave": false, "taken": true} {
		if got := l.get(configMaps, l.ns, name) != nil; got != there {
			t.Errorf("%s is there: %t, want %t", name, got, there)
		}
	}
	if _, err := l.cluster.Remove(t.Context(), "42", "app", ids(stay, leave, taken)); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if l.get(configMaps, l.ns, "stay") != nil || l.get(configMaps, l.ns, "taken") == nil {
		t.Error("Remove deleted an object of another app, or left one of this app")
	}
}

func TestObjectsThatAskToBeKeptStay(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	kept := appObject("app", l.configMap("kept"), map[string]any{"metadata": map[string]any{
		"name": "kept", "namespace": l.ns, "labels": map[string]any{"emco/deployment-id": "42-app"}, "annotations": map[string]any{"helm.sh/resource-policy": "keep"},
	}})
	plain := appObject("app", l.configMap("plain"), nil)
	l.apply(kube.AppState{App: "app", Desired: []manifest.Object{kept, plain}})
	got, err := l.cluster.Remove(t.Context(), "42", "app", ids(kept, plain))
	if err != nil || got.Pruned != 1 || len(got.Findings) != 1 || !strings.Contains(got.Findings[0], "kept asks to be kept") {
		t.Errorf("Remove = %+v, %v; want one pruned and a finding about the other", got, err)
	}
	if l.get(configMaps, l.ns, "kept") == nil || l.get(configMaps, l.ns, "plain") != nil {
		t.Error("the wrong object was left behind")
	}
}

func TestFieldsOfOthersAreTakenOverWithAFinding(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	l.create(configMaps, object(l.configMap("shared"), nil, map[string]any{"data": map[string]any{"k": "theirs", "own": "x"}}))
	want := appObject("app", l.configMap("shared"), map[string]any{"data": map[string]any{"k": "ours"}})
	got := l.apply(kube.AppState{App: "app", Desired: []manifest.Object{want}})
	if len(got.Findings) != 1 || !strings.Contains(got.Findings[0], ".data.k") || !strings.Contains(got.Findings[0], "somebody") {
		t.Errorf("findings are %q, want one that names .data.k and its manager", got.Findings)
	}
	data, _, _ := unstructured.NestedStringMap(l.get(configMaps, l.ns, "shared").Object, "data")
	if data["k"] != "ours" || data["own"] != "x" {
		t.Errorf("data is %v, want our value, and theirs in the other key", data)
	}
	if again := l.apply(kube.AppState{App: "app", Desired: []manifest.Object{want}}); len(again.Findings) > 0 {
		t.Errorf("applying again finds %q, want nothing", again.Findings)
	}
}

func TestABadObjectStopsNoOtherButPruning(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	old := appObject("app", l.configMap("old"), nil)
	l.apply(kube.AppState{App: "app", Desired: []manifest.Object{old}})
	bad := appObject("app", l.configMap("bad"), map[string]any{"data": map[string]any{"not a key": "v"}})
	unknown := appObject("app", manifest.ID{Group: "none.example.org", Version: "v1", Kind: "None", Namespace: l.ns, Name: "n"}, nil)
	nowhere := appObject("app", manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: l.ns + "-absent", Name: "n"}, nil)
	bare := appObject("app", manifest.ID{Version: "v1", Kind: "ConfigMap", Name: "n"}, nil)
	good := appObject("app", l.configMap("good"), nil)
	got, err := l.cluster.Apply(t.Context(), kube.AppState{
		Deployment: "42", App: "app",
		Desired: []manifest.Object{bad, unknown, nowhere, bare, good}, Previous: ids(old),
	})
	if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "4 objects were refused") {
		t.Errorf("Apply: %v, want the kind that a retry is most likely to fix, and the number", err)
	}
	kinds := map[string]errs.Kind{}
	for _, f := range got.Failed {
		kinds[f.ID.Kind+"/"+f.ID.Namespace+"/"+f.ID.Name] = errs.KindOf(f.Err)
	}
	want := map[string]errs.Kind{
		"ConfigMap/" + l.ns + "/bad": errs.Invalid, "None/" + l.ns + "/n": errs.NotFound,
		"ConfigMap/" + l.ns + "-absent/n": errs.Conflict, "ConfigMap//n": errs.Invalid,
	}
	if !maps.Equal(kinds, want) {
		t.Errorf("failures are %v, want %v", kinds, want)
	}
	if got.Applied != 1 || got.Pruned != 0 || l.get(configMaps, l.ns, "good") == nil || l.get(configMaps, l.ns, "old") == nil {
		t.Errorf("Apply = %+v, want the good one applied and the old one kept", got)
	}
}

func TestDefinitionsComeFirstAndStay(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	group := l.ns + ".example.org"
	crd := manifest.ID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets." + group}
	schemaOf := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	definition := appObject("app", crd, map[string]any{"spec": map[string]any{
		"group": group, "scope": "Cluster",
		"names":    map[string]any{"kind": "Widget", "plural": "widgets"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": schemaOf}},
	}})
	l.cleanup(crds, crd)
	// The kind has no namespaces, which is unknown before the definition is served.
	widget := appObject("app", manifest.ID{Group: group, Version: "v1", Kind: "Widget", Namespace: l.ns, Name: "w"}, map[string]any{"spec": map[string]any{"big": 9007199254740993}})
	st := kube.AppState{App: "app", CRDs: []manifest.Object{definition}, Desired: []manifest.Object{widget}, Previous: []manifest.ID{crd, widget.ID}}
	if got := l.apply(st); got.Applied != 2 {
		t.Errorf("Apply = %+v, want definition and widget applied", got)
	}
	widgets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
	if big, _, _ := unstructured.NestedInt64(l.get(widgets, "", "w").Object, "spec", "big"); big != 9007199254740993 {
		t.Errorf("a large number arrived as %d", big)
	}
	got, err := l.cluster.Remove(t.Context(), "42", "app", []manifest.ID{crd, widget.ID})
	if err != nil || got.Pruned != 1 {
		t.Errorf("Remove = %+v, %v; want the widget pruned", got, err)
	}
	if l.get(widgets, "", "w") != nil || l.get(crds, "", crd.Name) == nil {
		t.Error("the widget is there, or the definition is not")
	}
}

func TestNamespacesComeFirstAndGoLast(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	inner := l.ns + "-inner"
	role := appObject("app", manifest.ID{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Namespace: l.ns, Name: l.ns}, nil)
	want := []manifest.Object{
		appObject("app", manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: inner, Name: "a"}, nil),
		role, // has a namespace although its kind has none
		appObject("app", namespace(inner), nil),
	}
	l.cleanup(namespaces, namespace(inner))
	if got := l.apply(kube.AppState{App: "app", Desired: want}); got.Applied != 3 {
		t.Errorf("Apply = %+v, want 3 applied", got)
	}
	got, err := l.cluster.Remove(t.Context(), "42", "app", ids(want...))
	if err != nil || got.Pruned != 3 {
		t.Errorf("Remove = %+v, %v; want 3 pruned", got, err)
	}
	if l.get(namespaces, "", inner) != nil || l.get(roles, "", l.ns) != nil {
		t.Error("the namespace or the role is still there")
	}
	if again, err := l.cluster.Remove(t.Context(), "42", "app", ids(want...)); err != nil || again.Pruned != 0 {
		t.Errorf("Remove again = %+v, %v; want nothing to do", again, err)
	}
}

// addFinalizer keeps a ConfigMap from being removed until the test ends.
func (l *testCluster) addFinalizer(name string) {
	l.t.Helper()
	at := l.at(configMaps, l.ns)
	if _, err := at.Patch(l.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.org/hold"]}}`), metav1.PatchOptions{}); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := at.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			l.t.Errorf("remove the finalizer of %s: %v", name, err)
		}
	})
}

func TestAnObjectThatIsBeingDeletedIsAConflict(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	held := object(l.configMap("held"), nil, nil)
	l.create(configMaps, held)
	l.addFinalizer("held")
	if err := l.at(configMaps, l.ns).Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := l.cluster.Apply(t.Context(), kube.AppState{Deployment: "42", App: "app", Desired: []manifest.Object{appObject("app", held.ID, nil)}})
	if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "being deleted") {
		t.Errorf("Apply to an object that is being deleted: %v, want Conflict", err)
	}
}

func TestMissingRightsAreForbidden(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	parsed, err := clientcmd.Load(l.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range parsed.AuthInfos {
		user.Impersonate = "nobody@example.org"
	}
	text, err := clientcmd.Write(*parsed)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.sink.Connect(text)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer c.Close()
	_, err = c.Apply(t.Context(), kube.AppState{Deployment: "42", App: "app", Desired: []manifest.Object{appObject("app", l.configMap("a"), nil)}})
	if !errs.Is(err, errs.Forbidden) {
		t.Errorf("Apply without rights: %v, want Forbidden", err)
	}
}

func TestErrorsAboutSecretsQuoteNoValues(t *testing.T) {
	t.Parallel()
	l := newTestCluster(t)
	id := manifest.ID{Version: "v1", Kind: "Secret", Namespace: l.ns, Name: "s"}
	for _, members := range []map[string]any{
		{"data": map[string]any{"hunter2 key": "aHVudGVyMg=="}},
		{"data": map[string]any{"k": "hunter2 is no base64"}},
		{"type": "kubernetes.io/tls", "stringData": map[string]any{"tls.crt": "hunter2"}},
		{"stringData": "hunter2"},
	} {
		_, err := l.cluster.Apply(t.Context(), kube.AppState{Deployment: "42", App: "app", Desired: []manifest.Object{appObject("app", id, members)}})
		if err == nil || strings.Contains(err.Error(), "is no base64") || strings.Contains(err.Error(), "\"hunter2\"") {
			t.Errorf("Apply of a broken Secret: %v, want an error that shows no value", err)
		}
	}
}

func TestAnUnreachableClusterEndsTheRun(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := kube.New(kube.Options{}).Connect(config(`server: "https://`+address+`"`, `token: t`))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := []manifest.Object{appObject("app", manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "a"}, nil)}
	got, err := c.Apply(t.Context(), kube.AppState{Deployment: "42", App: "app", Desired: slices.Repeat(want, 100)})
	if !errs.Is(err, errs.Unavailable) || len(got.Failed) != 1 {
		t.Errorf("Apply to a closed port: %d failures, %v; want one, Unavailable", len(got.Failed), err)
	}
	if err := c.Reach(t.Context()); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Reach of a closed port: %v, want Unavailable", err)
	}
}

func TestAnEndlessAnswerIsRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for blanks := make([]byte, 1<<20); ; {
			if _, err := w.Write(blanks); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	c, err := kube.New(kube.Options{AllowInsecure: true}).Connect(config(`server: "`+server.URL+`"`, `token: t`))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Reach(t.Context()); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Reach of a server that never stops: %v, want Unavailable", err)
	}
}
