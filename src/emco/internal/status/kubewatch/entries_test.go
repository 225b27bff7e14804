package kubewatch

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// An object on which the rules panic is quarantined: it is Unknown, the log says so,
// and the others are judged.
func TestAPanicConcernsOneObjectOnly(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := New(Client{}, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Deliver: func(context.Context, appcontext.Report) {}})
	w.compute = func(u *unstructured.Unstructured) (*status.Result, error) {
		if u.GetName() == "bad" {
			panic("oh")
		}
		return status.Compute(u)
	}
	bad := manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "bad"}
	good := bad
	good.Name = "good"
	k := newKind(w, gvkOf(bad), func() {})
	w.kinds[k.gvk] = k
	w.Track(App{Key: appcontext.PairKey{UID: "1", App: "a"}, Objects: []manifest.ID{bad, good}})
	var list []any
	for _, id := range []manifest.ID{bad, good} {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind(id.Kind)
		u.SetNamespace(id.Namespace)
		u.SetName(id.Name)
		u.SetLabels(map[string]string{"emco/deployment-id": "1-a"})
		u.SetAnnotations(map[string]string{"emco/content": "stamp of " + id.Name})
		list = append(list, u)
	}
	if err := (*entries)(k).Replace(list, "1"); err != nil {
		t.Fatal(err)
	}
	got, complete := w.resources(w.apps["1-a"], "1-a")
	if !complete || got[0].Status != "Unknown" || got[1].Status != "Current" {
		t.Errorf("statuses are %+v, want Unknown and Current", got)
	}
	if got[0].Content != "stamp of bad" || got[1].Content != "stamp of good" {
		t.Errorf("contents are %q and %q, want the stamps", got[0].Content, got[1].Content)
	}
	if !strings.Contains(log.String(), "name=bad") {
		t.Errorf("the log does not name the object:\n%s", log.String())
	}
}

// A Job that runs is Current to kstatus, and so is a Pod that has failed. As hooks they
// are Current when they have succeeded, and only then.
func TestHooksAreCurrentWhenTheyHaveSucceeded(t *testing.T) {
	t.Parallel()
	condition := func(kind, message string) map[string]any {
		return map[string]any{"startTime": "2026-11-21T12:00:00Z", "conditions": []any{map[string]any{"type": kind, "status": "True", "message": message}}}
	}
	phase := func(p string) map[string]any {
		return map[string]any{"phase": p, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	}
	tests := []struct {
		name, version, kind string
		hook                bool
		status              map[string]any
		want                string
	}{
		{"a Job that runs", "batch/v1", "Job", true, map[string]any{"startTime": "2026-11-21T12:00:00Z", "active": int64(1)}, "InProgress Job in progress. success:0, active: 1, failed: 0"},
		{"a Job that has not begun", "batch/v1", "Job", true, nil, "InProgress Job not started"},
		{"a Job that is through", "batch/v1", "Job", true, condition("Complete", ""), "Current "},
		{"a Job that has failed", "batch/v1", "Job", true, condition("Failed", "back-off limit reached"), "Failed back-off limit reached"},
		{"a Job that is no hook", "batch/v1", "Job", false, map[string]any{"startTime": "2026-11-21T12:00:00Z"}, "Current "},
		{"a Pod that runs", "v1", "Pod", true, phase("Running"), "InProgress the Pod runs"},
		{"a Pod that has succeeded", "v1", "Pod", true, phase("Succeeded"), "Current "},
		{"a Pod that has failed", "v1", "Pod", true, phase("Failed"), "Failed the Pod failed"},
		{"a Pod that is no hook", "v1", "Pod", false, phase("Running"), "Current "},
		{"a hook of another kind", "v1", "ConfigMap", true, nil, "Current "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": tt.version, "kind": tt.kind, "metadata": map[string]any{"name": "x"}}}
			if tt.hook {
				u.SetAnnotations(map[string]string{"helm.sh/hook": "pre-install"})
			}
			if tt.status != nil {
				u.Object["status"] = tt.status
			}
			e := (*entries)(newKind(New(Client{}, Options{}), u.GroupVersionKind(), func() {})).judge(u)
			if got := string(e.status) + " " + e.reason; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
