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
	"github.com/emco-orchestrator/emco/src/kubehealth"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubehealthtest"
)

// newTestObserver returns an observer, and the handlers of its kinds, which the test calls as
// their watches would.
func newTestObserver(o Options, kinds ...servedKind) (*Observer, map[string]*kindWatch) {
	o.Log = slog.New(slog.DiscardHandler)
	x := New(Clients{}, o)
	x.discovered = true
	handlers := map[string]*kindWatch{}
	for _, s := range kinds {
		k := newKindWatch(x, s, func() {})
		x.kinds[s.gvk.GroupKind()] = k
		handlers[s.gvk.Kind] = k
	}
	return x, handlers
}

func kindOf(group, kind string, m readMode) servedKind {
	return servedKind{gvk: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, mode: m}
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

const kustomization = `{"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization",
"metadata":{"name":"emco-42-web","namespace":"flux-system","generation":1,"labels":{"emco/deployment-id":"42-web"}},
"spec":{"sourceRef":{"kind":"GitRepository","name":"emco-42"}},
"status":{"observedGeneration":1,"lastAppliedRevision":"main@sha1:0123456789012345678901234567890123456789",
"conditions":[{"type":"Ready","status":"True","observedGeneration":1}],
"inventory":{"entries":[{"id":"shop_conf__ConfigMap","v":"v1"},{"id":"shop_pass__Secret","v":"v1"}]}}}`

// The report of an app includes the status of Flux: the commit, errors, and the objects of
// kinds that the agent may not read.
func TestReportsIncludeFlux(t *testing.T) {
	t.Parallel()
	x, at := newTestObserver(Options{}, kindOf("", "ConfigMap", wholeObject), kindOf("kustomize.toolkit.fluxcd.io", "Kustomization", wholeObject), kindOf("source.toolkit.fluxcd.io", "GitRepository", sourceObject))
	x.ignored[schema.GroupKind{Kind: "Secret"}] = "excluded"
	at["ConfigMap"].Replace([]metav1.Object{labelled(t, "v1", "ConfigMap", "conf")})
	at["Kustomization"].Replace([]metav1.Object{parse(t, kustomization)})
	repository := func(ready string) *unstructured.Unstructured {
		return parse(t, `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","metadata":{"name":"emco-42","namespace":"flux-system"},"status":{"conditions":[{"type":"Ready","status":"`+ready+`","reason":"GitOperationFailed","message":"no access"}]}}`)
	}
	at["GitRepository"].Replace([]metav1.Object{repository("True")})
	r := x.Report()
	if len(r.Apps) != 1 || r.Apps[0].Label != "42-web" || r.Apps[0].Commit != "0123456789012345678901234567890123456789" || r.Apps[0].Error != "" {
		t.Fatalf("report is %+v", r)
	}
	want := []string{"ConfigMap/conf Current aa false", "Kustomization/emco-42-web Current  false", "Secret/pass Current  true"}
	if got := lines(r.Apps[0]); !slices.Equal(got, want) {
		t.Errorf("objects are %q, want %q", got, want)
	}
	at["GitRepository"].Put(repository("False"))
	if e := x.Report().Apps[0].Error; e != "GitRepository emco-42 not ready: GitOperationFailed: no access" {
		t.Errorf("error is %q, want that of the source", e)
	}
	at["GitRepository"].Delete(repository("False"))
	at["Kustomization"].Put(parse(t, strings.Replace(kustomization, `"status":"True"`, `"status":"False","reason":"BuildFailed","message":"oh"`, 1)))
	r = x.Report()
	if e := r.Apps[0].Error; e != "Kustomization emco-42-web not ready: BuildFailed: oh" {
		t.Errorf("error is %q, want that of the Kustomization", e)
	}
	want = []string{"ConfigMap/conf Current aa false", "Kustomization/emco-42-web InProgress  false", "Secret/pass Unknown  true"}
	if got := lines(r.Apps[0]); !slices.Equal(got, want) {
		t.Errorf("objects are %q, want %q", got, want)
	}
}

// While Flux runs again, which it does at each commit, an app stays as ready as it was, and
// that is not a change.
func TestAnAppStaysReadyWhileFluxRunsAgain(t *testing.T) {
	t.Parallel()
	x, at := newTestObserver(Options{}, kindOf("kustomize.toolkit.fluxcd.io", "Kustomization", wholeObject))
	x.ignored[schema.GroupKind{Kind: "Secret"}] = "excluded"
	busy := strings.Replace(kustomization, `[{"type":"Ready","status":"True"`, `[{"type":"Reconciling","status":"True","reason":"Progressing","message":"Building manifests","observedGeneration":1},{"type":"Ready","status":"Unknown"`, 1)
	at["Kustomization"].Replace(nil) // it was listed
	update := func(text string) []string {
		t.Helper()
		at["Kustomization"].Put(parse(t, text))
		return lines(x.Report().Apps[0])
	}
	unknown := []string{"Kustomization/emco-42-web InProgress  false", "Secret/pass Unknown  true"}
	if got := update(busy); !slices.Equal(got, unknown) {
		t.Errorf("at first objects are %q, want %q", got, unknown)
	}
	ready := update(kustomization)
	if got := update(busy); !slices.Equal(got, ready) || slices.Equal(got, unknown) {
		t.Errorf("objects are %q, want %q", got, ready)
	}
	before := x.Revisions()["42-web"]
	update(strings.Replace(busy, "Building manifests", "Detecting drift", 1))
	if now := x.Revisions()["42-web"]; now != before {
		t.Errorf("the revision went from %d to %d although nothing changed", before, now)
	}
}

// An Application of Argo CD is about one app, an object of Config Sync about all apps of a
// deployment.
func TestReportsIncludeArgoCDAndConfigSync(t *testing.T) {
	t.Parallel()
	x, at := newTestObserver(Options{}, kindOf("", "ConfigMap", wholeObject), kindOf("argoproj.io", "Application", wholeObject), kindOf("configsync.gke.io", "RootSync", sourceObject), kindOf("source.toolkit.fluxcd.io", "GitRepository", sourceObject))
	const commit = "0123456789012345678901234567890123456789"
	at["ConfigMap"].Replace([]metav1.Object{labelled(t, "v1", "ConfigMap", "conf")})
	at["Application"].Replace([]metav1.Object{parse(t, `{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"emco-42-web","namespace":"argocd","labels":{"emco/deployment-id":"42-web"}},
		"status":{"sync":{"status":"Synced","revision":"`+commit+`"}}}`)})
	if a := x.Report().Apps[0]; a.Commit != commit || a.Error != "" {
		t.Errorf("with Argo CD the app is %+v", a)
	}
	at["Application"].Replace(nil)
	sync := parse(t, `{"apiVersion":"configsync.gke.io/v1beta1","kind":"RootSync","metadata":{"name":"emco-42","namespace":"config-management-system","labels":{"emco/deployment":"42"}},
		"status":{"sync":{"commit":"`+commit+`","errors":[{"code":"2009","errorMessage":"no such kind"}]}}}`)
	at["RootSync"].Replace([]metav1.Object{sync})
	at["GitRepository"].Replace(nil) // which is not about RootSyncs
	if a := x.Report().Apps[0]; a.Commit != commit || a.Error != "RootSync emco-42: sync: no such kind" {
		t.Errorf("with Config Sync the app is %+v", a)
	}
	at["RootSync"].Delete(sync)
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

// Objects that lost their label, that the cluster created from others, or that were deleted,
// do not belong to the app.
func TestWhichObjectsBelongToAnApp(t *testing.T) {
	t.Parallel()
	x, at := newTestObserver(Options{}, kindOf("apps", "ReplicaSet", wholeObject), kindOf("", "Pod", wholeObject), kindOf("", "ConfigMap", metadataOnly))
	owned := func(kind, owner string) *unstructured.Unstructured {
		u := labelled(t, map[string]string{"Pod": "v1"}[kind]+map[string]string{"ReplicaSet": "apps/v1"}[kind], kind, "made")
		yes := true
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "x", UID: "u", Controller: &yes}})
		return u
	}
	conf := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "conf", Labels: map[string]string{status.DeploymentLabel: "42-web"}}}
	at["ReplicaSet"].Replace([]metav1.Object{owned("ReplicaSet", "Deployment"), labelled(t, "apps/v1", "ReplicaSet", "rendered")})
	at["Pod"].Replace([]metav1.Object{owned("Pod", "ReplicaSet")})
	at["ConfigMap"].Replace([]metav1.Object{conf})
	want := []string{"ConfigMap/conf Current  false", "Pod/made InProgress  false", "ReplicaSet/rendered InProgress aa false"}
	if got := lines(x.Report().Apps[0]); !slices.Equal(got, want) {
		t.Errorf("objects are %q, want %q", got, want)
	}
	bare := conf.DeepCopy()
	bare.Labels = nil
	at["ConfigMap"].Put(bare)
	at["Pod"].Delete(owned("Pod", "ReplicaSet"))
	moved := labelled(t, "apps/v1", "ReplicaSet", "rendered")
	moved.SetLabels(map[string]string{status.DeploymentLabel: "43-other"})
	at["ReplicaSet"].Put(moved)
	r := x.Report()
	if len(r.Apps) != 1 || r.Apps[0].Label != "43-other" {
		t.Errorf("apps are %+v, want the other one alone", r.Apps)
	}
	if n := len(x.Revisions()); n != 1 || x.objects != 1 {
		t.Errorf("%d labels and %d objects are kept, want one of each", n, x.objects)
	}
}

func TestTooManyObjectsMakeTheirKindUnseen(t *testing.T) {
	t.Parallel()
	x, at := newTestObserver(Options{MaxObjects: 2}, kindOf("", "Service", wholeObject), kindOf("", "ConfigMap", wholeObject))
	at["Service"].Replace([]metav1.Object{labelled(t, "v1", "Service", "a")})
	var list []metav1.Object
	for i := range 3 {
		list = append(list, labelled(t, "v1", "ConfigMap", fmt.Sprint("c", i)))
	}
	at["ConfigMap"].Replace(list)
	r := x.Report()
	if len(r.Unseen) != 1 || r.Unseen[0].Kind != "ConfigMap" || len(r.Apps[0].Objects) != 1 {
		t.Errorf("report is %+v, want ConfigMaps unseen and the Service", r)
	}
	at["ConfigMap"].Replace(list[:1])
	if r = x.Report(); len(r.Unseen) != 0 || len(r.Apps[0].Objects) != 2 {
		t.Errorf("report is %+v, want both objects again", r)
	}
}

// An object whose kind is no longer seen is not reported as deleted.
func TestHiddenObjectsAreCounted(t *testing.T) {
	t.Parallel()
	x, at := newTestObserver(Options{}, kindOf("", "Service", wholeObject), kindOf("", "ConfigMap", wholeObject))
	at["Service"].Replace([]metav1.Object{labelled(t, "v1", "Service", "a")})
	at["ConfigMap"].Replace([]metav1.Object{labelled(t, "v1", "ConfigMap", "c")})
	at["ConfigMap"].Failed(kubehealth.Failure{Cause: kubehealth.Unreachable, Since: x.started})
	r := x.Report()
	if len(r.Apps[0].Objects) != 1 || r.Apps[0].Truncated != 1 || len(r.Unseen) != 1 {
		t.Errorf("report is %+v, want the Service, one object left out, and ConfigMaps unseen", r)
	}
}

func TestBriefsOmitWhatOnlyServersRead(t *testing.T) {
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
	k := newKindWatch(New(Clients{}, Options{Briefs: true}), kindOf("", "Secret", metadataOnly), func() {})
	if b := k.metadataBrief(&metav1.PartialObjectMetadata{}); b != nil {
		t.Errorf("brief of a Secret is %s", b)
	}
}

// The monitor reports the health that a watch of a direct cluster reports.
func TestF07HealthOfObjects(t *testing.T) {
	t.Parallel()
	for _, c := range kubehealthtest.Cases(map[string]string{status.DeploymentLabel: "42-web"}) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			gvk := c.Object.GroupVersionKind()
			x, at := newTestObserver(Options{}, kindOf(gvk.Group, gvk.Kind, wholeObject))
			at[gvk.Kind].Replace([]metav1.Object{c.Object})
			r := x.Report()
			if len(r.Apps) != 1 || len(r.Apps[0].Objects) != 1 {
				t.Fatalf("report is %+v, want one object", r)
			}
			if got := r.Apps[0].Objects[0]; got.Status != c.Status || !strings.Contains(got.Reason, c.Reason) {
				t.Errorf("the object is %s because of %q, want %s, with %q in the reason", got.Status, got.Reason, c.Status, c.Reason)
			}
		})
	}
}
