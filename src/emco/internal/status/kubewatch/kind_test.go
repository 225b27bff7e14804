package kubewatch

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubehealthtest"
)

// A watch of a direct cluster reports the health that the monitor reports.
func TestF07HealthOfObjects(t *testing.T) {
	t.Parallel()
	for _, c := range kubehealthtest.Cases(map[string]string{"emco/deployment-id": "1-a"}) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			gvk := c.Object.GroupVersionKind()
			w := New(Client{}, Options{Deliver: func(context.Context, appcontext.Report) {}})
			k := newKindWatch(w, gvk, func() {})
			w.kinds[gvk] = k
			id := manifest.ID{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: "n", Name: "x"}
			w.Track(App{Key: appcontext.PairKey{Deployment: "1", App: "a"}, Objects: []manifest.ID{id}})
			k.Replace([]metav1.Object{c.Object})
			got, complete := w.statusesLocked(w.apps["1-a"], "1-a")
			if !complete || got[0].Status != c.Status || !strings.Contains(got[0].Reason, c.Reason) {
				t.Errorf("the object is %+v, want %s, with %q in the reason", got, c.Status, c.Reason)
			}
		})
	}
}
