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
		list = append(list, u)
	}
	if err := (*entries)(k).Replace(list, "1"); err != nil {
		t.Fatal(err)
	}
	got, complete := w.resources(w.apps["1-a"], "1-a")
	if !complete || got[0].Status != "Unknown" || got[1].Status != "Current" {
		t.Errorf("statuses are %+v, want Unknown and Current", got)
	}
	if !strings.Contains(log.String(), "name=bad") {
		t.Errorf("the log does not name the object:\n%s", log.String())
	}
}
