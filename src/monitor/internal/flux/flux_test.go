package flux_test

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/monitor/internal/flux"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
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
	got := flux.Read(parse(t, kustomization))
	want := flux.Applied{
		Name: "emco-7-web", Commit: "0123456789012345678901234567890123456789", Ready: true, Source: "flux-system/emco-7",
		Held: []flux.ID{{"apps", "v1", "Deployment", "shop", "web"}, {"rbac.authorization.k8s.io", "v1", "ClusterRole", "", "system:reader"}, {"", "v1", "ConfigMap", "shop", "conf"}},
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
		{"it works on it", `"status":"True"`, `"status":"Unknown"`, ""},
		{"it is suspended", `"spec":{`, `"spec":{"suspend":true,`, "Kustomization emco-7-web is suspended: nothing new is applied"},
		{"conditions that are none", `"conditions":[`, `"conditions":[7,"x",`, ""},
	} {
		got := flux.Read(parse(t, strings.Replace(kustomization, c.old, c.new, 1)))
		if got.Error != c.want {
			t.Errorf("%s: Error = %q, want %q", c.name, got.Error, c.want)
		}
		if wantReady := c.name == "it is suspended" || c.name == "conditions that are none"; got.Ready != wantReady {
			t.Errorf("%s: Ready = %v, want %v", c.name, got.Ready, wantReady)
		}
	}
	source := `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","metadata":{"name":"emco-7"},"status":{"conditions":[{"type":"Ready","status":"False","reason":"GitOperationFailed","message":"authentication required"}]}}`
	if got := flux.SourceError(parse(t, source)); got != "GitRepository emco-7 not ready: GitOperationFailed: authentication required" {
		t.Errorf("SourceError = %q", got)
	}
}

func TestCommits(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("ab", 20)
	for text, want := range map[string]string{
		"main@sha1:" + id: id, "main/" + id: id, "sha1:" + id: id, id: id, "v1.2.3": "", "main@sha256:" + strings.Repeat("ab", 32): strings.Repeat("ab", 32), "sha1:" + id + "0": "",
	} {
		got := flux.Read(parse(t, strings.Replace(kustomization, "main@sha1:0123456789012345678901234567890123456789", text, 1))).Commit
		if got != want {
			t.Errorf("commit of %q = %q, want %q", text, got, want)
		}
	}
}
