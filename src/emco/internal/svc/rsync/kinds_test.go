package rsync

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
)

const (
	widgets = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.org}, spec: {group: example.org,
		scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true, storage: true}]}}`
	widget = `{apiVersion: example.org/v1, kind: Widget, metadata: {name: w, namespace: default}}`
)

// deploy makes the first revision of a deployment: apps with manifests, on cluster d0.
func (w *works) deploy(uid appcontext.HeadID, apps map[string]string) {
	w.Helper()
	place := appcontext.Placement{Cluster: "edge+d0", Apps: map[string]appcontext.Digest{}}
	rev := appcontext.Revision{Number: 1, Namespace: "default"}
	for _, name := range slices.Sorted(maps.Keys(apps)) {
		objects, err := manifest.Parse("test.yaml", []byte(apps[name]))
		w.must(err)
		var b appcontext.Bundle
		for _, o := range objects {
			w.must(w.contexts.PutBlobs(w.Context(), map[appcontext.Digest][]byte{o.Digest: o.Content}))
			b.Objects = append(b.Objects, appcontext.Ref{ID: o.ID, Digest: o.Digest})
		}
		place.Apps[name], err = w.contexts.PutBundle(w.Context(), b)
		w.must(err)
		rev.Apps = append(rev.Apps, appcontext.App{Name: name, Bundles: []appcontext.Digest{place.Apps[name]}})
	}
	head, err := w.contexts.ChangeHead(w.Context(), appcontext.Head{}, appcontext.Head{UID: uid, Document: "the group", LastRev: 1}, nil, &appcontext.Operation{ID: "op" + string(uid), Rev: 1})
	w.must(err)
	_, err = w.contexts.Publish(w.Context(), head, rev, slices.Values([]appcontext.Placement{place}))
	w.must(err)
}

// phases waits until the apps of a deployment have phases: "app phase attempts, …".
func (w *works) phases(d v2.DeploymentID, want string) {
	w.Helper()
	w.until(want, func(map[string]appcontext.Pair) bool {
		all, err := w.contexts.PairsOf(w.Context(), d)
		w.must(err)
		got := ""
		for _, p := range all {
			got += fmt.Sprint(p.Key.App, " ", p.Phase, " ", p.Attempt, " ")
		}
		return got == want
	})
}

// An object of a kind that another app defines is applied as soon as the definition is there:
// after it in the same deployment, and at once if another deployment brings it later.
func TestF03AKindThatAnotherAppDefines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		run  func(w *works)
	}{
		{"of the same deployment", func(w *works) {
			w.deploy("7", map[string]string{"a": widget, "b": widgets})
			w.phases("7", "a Applied 0 b Applied 0 ")
			events, err := w.contexts.Events(w.Context(), "7")
			w.must(err)
			for _, e := range events {
				if e.Type == "Warning" {
					w.Errorf("there is a warning: %+v", e)
				}
			}
		}},
		{"of another deployment", func(w *works) {
			w.deploy("7", map[string]string{"a": widget})
			w.phases("7", "a Failed 1 ")
			w.deploy("8", map[string]string{"b": widgets})
			w.phases("7", "a Applied 0 ")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorksOnServer(t)
			tt.run(w)
		})
	}
}

// newWorksOnServer starts a process with one direct cluster, an API server, that retries nothing
// on its own.
func newWorksOnServer(t *testing.T) *works {
	t.Helper()
	w := newWorks(t, 0)
	live := kubetest.Start(t)
	createNamespace(t, live.Kubeconfig(), "default")
	_, err := w.db.Create(t.Context(), store.Write{
		Key: "cluster-providers/edge/clusters/d0", Body: []byte(`{"metadata":{"name":"d0"},"spec":{"gitOps":{}}}`), Secret: seal.Secret(live.Kubeconfig()),
	})
	w.must(err)
	p := w.process("one", nil)
	p.shared.Retry = pair.Retry{First: time.Hour, Longest: time.Hour}
	w.start(p)
	return w
}

// A delivery that failed keeps the findings about the objects that were accepted.
func TestF01AFailureKeepsFindings(t *testing.T) {
	t.Parallel()
	w := newWorksOnServer(t)
	w.deploy("7", map[string]string{"a": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: default}, frob: 1}\n---\n" + widget})
	w.phases("7", "a Failed 1 ")
	all, err := w.contexts.PairsOf(t.Context(), "7")
	w.must(err)
	const want = "v1 ConfigMap default/x: field .frob was left out: the cluster does not know it"
	if got := all[0]; len(got.Findings) != 1 || got.Findings[0] != want || got.Outcome == nil || len(got.Outcome.Refused) != 1 {
		t.Errorf("got findings %q and outcome %+v, want %q and one refusal", got.Findings, got.Outcome, want)
	}
}
