package observe

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/watchstore"
)

// stand is an observer whose kinds the test fills, as reflectors do.
func stand(o Options, kinds ...served) (*Observer, map[string]watchstore.Store) {
	o.Log = slog.New(slog.DiscardHandler)
	x := New(Clients{}, o)
	x.looked = true
	stores := map[string]watchstore.Store{}
	for _, s := range kinds {
		k := newKind(x, s, func() {})
		x.kinds[s.gvk.GroupKind()] = k
		stores[s.gvk.Kind] = watchstore.Store{Taker: k}
	}
	return x, stores
}

func kindOf(group, kind string, f form) served {
	return served{gvk: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, form: f}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

func labelled(t *testing.T, apiVersion, kind, name string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"shop","name":%q,"labels":{"emco/deployment-id":"42-web"},"annotations":{"emco/content":"aa"}}}`, apiVersion, kind, name))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const kustomization = `{"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization",
"metadata":{"name":"emco-42-web","namespace":"flux-system","generation":1,"labels":{"emco/deployment-id":"42-web"}},
"spec":{"sourceRef":{"kind":"GitRepository","name":"emco-42"}},
"status":{"observedGeneration":1,"lastAppliedRevision":"main@sha1:0123456789012345678901234567890123456789",
"conditions":[{"type":"Ready","status":"True","observedGeneration":1}],
"inventory":{"entries":[{"id":"shop_conf__ConfigMap","v":"v1"},{"id":"shop_pass__Secret","v":"v1"}]}}}`

// What Flux says comes with the app: its commit, its complaints, and what it applied of
// kinds that the agent may not read.
func TestReportsTellOfFlux(t *testing.T) {
	t.Parallel()
	x, at := stand(Options{}, kindOf("", "ConfigMap", whole), kindOf("kustomize.toolkit.fluxcd.io", "Kustomization", whole), kindOf("source.toolkit.fluxcd.io", "GitRepository", source))
	x.leftOut[schema.GroupKind{Kind: "Secret"}] = "excluded"
	must(t, at["ConfigMap"].Replace([]any{labelled(t, "v1", "ConfigMap", "conf")}, "1"))
	must(t, at["Kustomization"].Replace([]any{parse(t, kustomization)}, "1"))
	repository := func(ready string) *unstructured.Unstructured {
		return parse(t, `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","metadata":{"name":"emco-42","namespace":"flux-system"},"status":{"conditions":[{"type":"Ready","status":"`+ready+`","reason":"GitOperationFailed","message":"no access"}]}}`)
	}
	must(t, at["GitRepository"].Replace([]any{repository("True")}, "1"))
	r := x.Report()
	if len(r.Apps) != 1 || r.Apps[0].Label != "42-web" || r.Apps[0].Commit != "0123456789012345678901234567890123456789" || r.Apps[0].Error != "" {
		t.Fatalf("report is %+v", r)
	}
	want := []string{"ConfigMap/conf Current aa false", "Kustomization/emco-42-web Current  false", "Secret/pass Current  true"}
	if got := lines(r.Apps[0]); !slices.Equal(got, want) {
		t.Errorf("objects are %q, want %q", got, want)
	}
	must(t, at["GitRepository"].Update(repository("False")))
	if e := x.Report().Apps[0].Error; e != "GitRepository emco-42 not ready: GitOperationFailed: no access" {
		t.Errorf("error is %q, want that of the source", e)
	}
	must(t, at["GitRepository"].Delete(repository("False")))
	must(t, at["Kustomization"].Update(parse(t, strings.Replace(kustomization, `"status":"True"`, `"status":"False","reason":"BuildFailed","message":"oh"`, 1))))
	r = x.Report()
	if e := r.Apps[0].Error; e != "Kustomization emco-42-web not ready: BuildFailed: oh" {
		t.Errorf("error is %q, want that of the Kustomization", e)
	}
	want = []string{"ConfigMap/conf Current aa false", "Kustomization/emco-42-web InProgress  false", "Secret/pass Unknown  true"}
	if got := lines(r.Apps[0]); !slices.Equal(got, want) {
		t.Errorf("objects are %q, want %q", got, want)
	}
}

// While Flux looks again, at each commit of anybody, an app stays as ready as it was, and
// nobody is woken for it.
func TestAnAppStaysReadyWhileFluxLooksAgain(t *testing.T) {
	t.Parallel()
	x, at := stand(Options{}, kindOf("kustomize.toolkit.fluxcd.io", "Kustomization", whole))
	x.leftOut[schema.GroupKind{Kind: "Secret"}] = "excluded"
	busy := strings.Replace(kustomization, `[{"type":"Ready","status":"True"`, `[{"type":"Reconciling","status":"True","reason":"Progressing","message":"Building manifests","observedGeneration":1},{"type":"Ready","status":"Unknown"`, 1)
	must(t, at["Kustomization"].Replace(nil, "1")) // it was listed
	said := func(text string) []string {
		t.Helper()
		must(t, at["Kustomization"].Update(parse(t, text)))
		return lines(x.Report().Apps[0])
	}
	unknown := []string{"Kustomization/emco-42-web InProgress  false", "Secret/pass Unknown  true"}
	if got := said(busy); !slices.Equal(got, unknown) {
		t.Errorf("at first objects are %q, want %q", got, unknown)
	}
	ready := said(kustomization)
	if got := said(busy); !slices.Equal(got, ready) || slices.Equal(got, unknown) {
		t.Errorf("objects are %q, want %q", got, ready)
	}
	before := x.Revisions()["42-web"]
	said(strings.Replace(busy, "Building manifests", "Detecting drift", 1))
	if now := x.Revisions()["42-web"]; now != before {
		t.Errorf("the revision went from %d to %d though nothing is said", before, now)
	}
}

// Of Argo CD an Application speaks for its app, of Config Sync one object for all apps of
// a deployment.
func TestReportsTellOfArgoCDAndConfigSync(t *testing.T) {
	t.Parallel()
	x, at := stand(Options{}, kindOf("", "ConfigMap", whole), kindOf("argoproj.io", "Application", whole), kindOf("configsync.gke.io", "RootSync", source), kindOf("source.toolkit.fluxcd.io", "GitRepository", source))
	const commit = "0123456789012345678901234567890123456789"
	must(t, at["ConfigMap"].Replace([]any{labelled(t, "v1", "ConfigMap", "conf")}, "1"))
	must(t, at["Application"].Replace([]any{parse(t, `{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"emco-42-web","namespace":"argocd","labels":{"emco/deployment-id":"42-web"}},
		"status":{"sync":{"status":"Synced","revision":"`+commit+`"}}}`)}, "1"))
	if a := x.Report().Apps[0]; a.Commit != commit || a.Error != "" {
		t.Errorf("with Argo CD the app is %+v", a)
	}
	must(t, at["Application"].Replace(nil, "2"))
	sync := parse(t, `{"apiVersion":"configsync.gke.io/v1beta1","kind":"RootSync","metadata":{"name":"emco-42","namespace":"config-management-system","labels":{"emco/deployment":"42"}},
		"status":{"sync":{"commit":"`+commit+`","errors":[{"code":"2009","errorMessage":"no such kind"}]}}}`)
	must(t, at["RootSync"].Replace([]any{sync}, "1"))
	must(t, at["GitRepository"].Replace(nil, "1")) // which is not about RootSyncs
	if a := x.Report().Apps[0]; a.Commit != commit || a.Error != "RootSync emco-42: sync: no such kind" {
		t.Errorf("with Config Sync the app is %+v", a)
	}
	must(t, at["RootSync"].Delete(sync))
	if a := x.Report().Apps[0]; a.Commit != "" || a.Error != "" {
		t.Errorf("without the RootSync the app is %+v", a)
	}
}

func lines(a status.App) []string {
	var out []string
	for _, o := range a.Objects {
		out = append(out, fmt.Sprintf("%s/%s %s %s %v", o.Kind, o.Name, o.Status, o.Content, o.Unread))
	}
	slices.Sort(out)
	return out
}

// Objects that lose their label, that are made from others, or that go, are no objects
// of the app.
func TestWhatIsOfAnApp(t *testing.T) {
	t.Parallel()
	x, at := stand(Options{}, kindOf("apps", "ReplicaSet", whole), kindOf("", "Pod", whole), kindOf("", "ConfigMap", header))
	owned := func(kind, owner string) *unstructured.Unstructured {
		u := labelled(t, map[string]string{"Pod": "v1"}[kind]+map[string]string{"ReplicaSet": "apps/v1"}[kind], kind, "made")
		yes := true
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "x", UID: "u", Controller: &yes}})
		return u
	}
	conf := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "conf", Labels: map[string]string{status.DeploymentLabel: "42-web"}}}
	must(t, at["ReplicaSet"].Replace([]any{owned("ReplicaSet", "Deployment"), labelled(t, "apps/v1", "ReplicaSet", "rendered")}, "1"))
	must(t, at["Pod"].Replace([]any{owned("Pod", "ReplicaSet")}, "1"))
	must(t, at["ConfigMap"].Replace([]any{conf}, "1"))
	want := []string{"ConfigMap/conf Current  false", "Pod/made InProgress  false", "ReplicaSet/rendered InProgress aa false"}
	if got := lines(x.Report().Apps[0]); !slices.Equal(got, want) {
		t.Errorf("objects are %q, want %q", got, want)
	}
	bare := conf.DeepCopy()
	bare.Labels = nil
	must(t, at["ConfigMap"].Update(bare))
	must(t, at["Pod"].Delete(owned("Pod", "ReplicaSet")))
	moved := labelled(t, "apps/v1", "ReplicaSet", "rendered")
	moved.SetLabels(map[string]string{status.DeploymentLabel: "43-other"})
	must(t, at["ReplicaSet"].Update(moved))
	r := x.Report()
	if len(r.Apps) != 1 || r.Apps[0].Label != "43-other" {
		t.Errorf("apps are %+v, want the other one alone", r.Apps)
	}
	if n := len(x.Revisions()); n != 1 || x.objects != 1 {
		t.Errorf("%d labels and %d objects are kept, want one of each", n, x.objects)
	}
}

func TestTooManyObjectsAreSaidToBe(t *testing.T) {
	t.Parallel()
	x, at := stand(Options{MaxObjects: 2}, kindOf("", "Service", whole), kindOf("", "ConfigMap", whole))
	must(t, at["Service"].Replace([]any{labelled(t, "v1", "Service", "a")}, "1"))
	var list []any
	for i := range 3 {
		list = append(list, labelled(t, "v1", "ConfigMap", fmt.Sprint("c", i)))
	}
	must(t, at["ConfigMap"].Replace(list, "1"))
	r := x.Report()
	if len(r.Unseen) != 1 || r.Unseen[0].Kind != "ConfigMap" || len(r.Apps[0].Objects) != 1 {
		t.Errorf("report is %+v, want ConfigMaps unseen and the Service", r)
	}
	must(t, at["ConfigMap"].Replace(list[:1], "2"))
	if r = x.Report(); len(r.Unseen) != 0 || len(r.Apps[0].Objects) != 2 {
		t.Errorf("report is %+v, want both objects again", r)
	}
}

// An object whose kind is not seen any more is not called gone.
func TestHiddenObjectsAreCounted(t *testing.T) {
	t.Parallel()
	x, at := stand(Options{}, kindOf("", "Service", whole), kindOf("", "ConfigMap", whole))
	must(t, at["Service"].Replace([]any{labelled(t, "v1", "Service", "a")}, "1"))
	must(t, at["ConfigMap"].Replace([]any{labelled(t, "v1", "ConfigMap", "c")}, "1"))
	x.mu.Lock()
	x.kinds[schema.GroupKind{Kind: "ConfigMap"}].failed(errNoAnswer, x.begun)
	x.mu.Unlock()
	r := x.Report()
	if len(r.Apps[0].Objects) != 1 || r.Apps[0].Truncated != 1 || len(r.Unseen) != 1 {
		t.Errorf("report is %+v, want the Service, one object left out, and ConfigMaps unseen", r)
	}
}

func TestBriefsHoldNoMoreThanIsShown(t *testing.T) {
	t.Parallel()
	u := labelled(t, "v1", "Service", "s")
	u.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "canary"})
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "canary"}})
	u.Object["spec"] = map[string]any{"x": strings.Repeat("y", maxBrief)}
	u.Object["status"] = map[string]any{"z": "kept"}
	var got map[string]any
	text := brief(u)
	if err := json.Unmarshal(text, &got); err != nil || strings.Contains(string(text), "canary") || got["spec"] != nil || got["status"] == nil {
		t.Errorf("brief is %.200s, %v", text, err)
	}
	k := newKind(New(Clients{}, Options{Briefs: true}), kindOf("", "Secret", header), func() {})
	if b := k.headerBrief(&metav1.PartialObjectMetadata{}); b != nil {
		t.Errorf("brief of a Secret is %s", b)
	}
}
