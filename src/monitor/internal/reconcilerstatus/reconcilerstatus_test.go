package reconcilerstatus_test

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/reconcilerstatus"
)

func parseInventoryID(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

const kustomization = `{"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization",
"metadata":{"name":"emco-7-web","namespace":"flux-system","generation":2},
"spec":{"sourceRef":{"kind":"GitRepository","name":"emco-7"}},
"status":{"lastAppliedRevision":"main@sha1:0123456789012345678901234567890123456789",
"conditions":[{"type":"Ready","status":"True","reason":"ReconciliationSucceeded","message":"Applied revision","observedGeneration":2}],
"inventory":{"entries":[{"id":"shop_web_apps_Deployment","v":"v1"},{"id":"_system__reader_rbac.authorization.k8s.io_ClusterRole","v":"v1"},{"id":"nonsense","v":"v1"},{"id":"shop_conf__ConfigMap","v":"v1"}]}}}`

func TestRead(t *testing.T) {
	t.Parallel()
	got, _ := reconcilerstatus.Read(parseInventoryID(t, kustomization))
	want := reconcilerstatus.Applied{
		Name: "emco-7-web", Commit: "0123456789012345678901234567890123456789", Ready: true, Source: "flux-system/emco-7", Generation: 2,
		Objects: []reconcilerstatus.ID{{"apps", "v1", "Deployment", "shop", "web"}, {"rbac.authorization.k8s.io", "v1", "ClusterRole", "", "system:reader"}, {"", "v1", "ConfigMap", "shop", "conf"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Read = %+v, want %+v", got, want)
	}
}

func TestWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, old, new, want string }{
		{"an apply that failed", `"status":"True","reason":"ReconciliationSucceeded","message":"Applied revision"`, `"status":"False","reason":"BuildFailed","message":"no such file"`, "Kustomization emco-7-web not ready: BuildFailed: no such file"},
		{"a condition of an older generation", `"observedGeneration":2`, `"observedGeneration":1`, ""},
		{"it runs again", `"status":"True"`, `"status":"Unknown"`, ""},
		{"it is suspended", `"spec":{`, `"spec":{"suspend":true,`, "Kustomization emco-7-web is suspended: nothing new is applied"},
		{"conditions that are none", `"conditions":[`, `"conditions":[7,"x",`, ""},
	} {
		got, _ := reconcilerstatus.Read(parseInventoryID(t, strings.Replace(kustomization, c.old, c.new, 1)))
		if got.Error != c.want {
			t.Errorf("%s: Error = %q, want %q", c.name, got.Error, c.want)
		}
		if wantReady := c.name == "it is suspended" || c.name == "conditions that are none"; got.Ready != wantReady {
			t.Errorf("%s: Ready = %v, want %v", c.name, got.Ready, wantReady)
		}
	}
	source := `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","metadata":{"name":"emco-7"},"status":{"conditions":[{"type":"Ready","status":"False","reason":"GitOperationFailed","message":"authentication required"}]}}`
	if got := reconcilerstatus.ReadDeployment(parseInventoryID(t, source)).Error; got != "GitRepository emco-7 not ready: GitOperationFailed: authentication required" {
		t.Errorf("ReadDeployment: error %q", got)
	}
}

// Flux calls nothing ready while it looks again, which it does at each commit of anybody:
// its last result holds until it is done, unless its object has changed.
func TestWhileFluxWorksItsLastWordStands(t *testing.T) {
	t.Parallel()
	read := func(changes ...string) reconcilerstatus.Applied {
		a, _ := reconcilerstatus.Read(parseInventoryID(t, strings.NewReplacer(changes...).Replace(kustomization)))
		return a
	}
	working := []string{`"status":"True"`, `"status":"Unknown"`}
	bad := read(`"status":"True"`, `"status":"False"`)
	for _, c := range []struct {
		name     string
		earlier  reconcilerstatus.Applied
		now      reconcilerstatus.Applied
		ready    bool
		why      string
		standing bool
	}{
		{"it was ready", read(), read(working...), true, "", true},
		{"it was not", bad, read(working...), false, bad.Error, true},
		{"it is done", bad, read(), true, "", false},
		{"it failed", read(), bad, false, bad.Error, false},
		{"its object has changed", read(), read(append(working, `"generation":2`, `"generation":3`, `"observedGeneration":2`, `"observedGeneration":3`)...), false, "", false},
		{"it has not seen the change", read(), read(`"generation":2`, `"generation":3`), false, "", false},
		{"there was no result", reconcilerstatus.Applied{}, read(working...), false, "", false},
	} {
		got, stands := c.now.After(c.earlier)
		if got.Ready != c.ready || got.Error != c.why || stands != c.standing {
			t.Errorf("%s: After = ready %v, error %q, stands %v", c.name, got.Ready, got.Error, stands)
		}
		if got.Commit != c.now.Commit || len(got.Objects) != len(c.now.Objects) {
			t.Errorf("%s: commit %q and %d objects held, want those of now", c.name, got.Commit, len(got.Objects))
		}
	}
}

func TestCommits(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("ab", 20)
	for text, want := range map[string]string{
		"main@sha1:" + id: id, "main/" + id: id, "sha1:" + id: id, id: id, "v1.2.3": "", "main@sha256:" + strings.Repeat("ab", 32): strings.Repeat("ab", 32), "sha1:" + id + "0": "",
	} {
		a, _ := reconcilerstatus.Read(parseInventoryID(t, strings.Replace(kustomization, "main@sha1:0123456789012345678901234567890123456789", text, 1)))
		if got := a.Commit; got != want {
			t.Errorf("commit of %q = %q, want %q", text, got, want)
		}
	}
}

const application = `{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"emco-7-web","namespace":"argocd"},
"status":{"sync":{"status":"Synced","revision":"0123456789012345678901234567890123456789"},
"operationState":{"phase":"Succeeded","message":"successfully synced","syncResult":{"revision":"1111111111111111111111111111111111111111"}},
"resources":[{"group":"apps","version":"v1","kind":"Deployment","namespace":"shop","name":"web","status":"Synced"},
{"version":"v1","kind":"Secret","namespace":"shop","name":"pass","status":"OutOfSync"},7]}}`

func TestReadOfArgoCD(t *testing.T) {
	t.Parallel()
	held := []reconcilerstatus.ID{{"apps", "v1", "Deployment", "shop", "web"}}
	for _, c := range []struct {
		name, old, new string
		want           reconcilerstatus.Applied
	}{
		{"synced, also when nothing was to be applied", "", "", reconcilerstatus.Applied{Commit: "0123456789012345678901234567890123456789", Ready: true}},
		{"a later commit is not there yet", `"Synced","rev`, `"OutOfSync","rev`, reconcilerstatus.Applied{Commit: "1111111111111111111111111111111111111111"}},
		{"a sync that failed", `"Synced","revision":"0123456789012345678901234567890123456789"},
"operationState":{"phase":"Succeeded","message":"successfully synced"`, `"OutOfSync"},"operationState":{"phase":"Failed","message":"one or more objects failed"`, reconcilerstatus.Applied{Error: "Application emco-7-web: sync failed: one or more objects failed"}},
		{"a repository that cannot be read", `"resources":`, `"conditions":[{"type":"ComparisonError","message":"no access"},{"type":"SharedResourceWarning","message":"x"}],"resources":`, reconcilerstatus.Applied{Commit: "0123456789012345678901234567890123456789", Ready: true, Error: "Application emco-7-web: ComparisonError: no access"}},
	} {
		c.want.Name, c.want.Objects = "emco-7-web", held
		got, known := reconcilerstatus.Read(parseInventoryID(t, strings.Replace(application, c.old, c.new, 1)))
		if !known || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: Read = %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestReadOfConfigSync(t *testing.T) {
	t.Parallel()
	got := reconcilerstatus.ReadDeployment(parseInventoryID(t, `{"apiVersion":"configsync.gke.io/v1beta1","kind":"RepoSync","metadata":{"name":"emco-7","labels":{"emco/deployment":"7"}},
"status":{"source":{"errors":[{"code":"1021","errorMessage":"a"}]},"rendering":{"errors":[{"errorMessage":"b"},{"errorMessage":"c"}]},
"sync":{"commit":"0123456789012345678901234567890123456789","errors":[{"errorMessage":"d"}]},
"conditions":[{"type":"Stalled","status":"True","message":"e"},{"type":"Syncing","status":"True"}]}}`))
	want := reconcilerstatus.DeploymentStatus{Deployment: "7", Commit: "0123456789012345678901234567890123456789", Error: "RepoSync emco-7: source: a; RepoSync emco-7: rendering: b; RepoSync emco-7: rendering: c"}
	if got != want {
		t.Errorf("ReadDeployment = %+v, want %+v", got, want)
	}
}

func TestOtherKindsSayNothing(t *testing.T) {
	t.Parallel()
	u := parseInventoryID(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"status":{"sync":{"commit":"0123456789012345678901234567890123456789"}}}`)
	if a, known := reconcilerstatus.Read(u); known || a.Commit != "" {
		t.Errorf("Read of a ConfigMap = %+v", a)
	}
	if s := reconcilerstatus.ReadDeployment(u); s != (reconcilerstatus.DeploymentStatus{}) {
		t.Errorf("ReadDeployment of a ConfigMap = %+v", s)
	}
}
