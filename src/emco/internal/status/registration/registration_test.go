package registration_test

import (
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/registration"
)

// A report of a commit proves the objects of a pair only if the commit holds all of them.
func TestPairsNameTheCommitThatAReportProves(t *testing.T) {
	t.Parallel()
	contexts := contexttest.New(t)
	id := func(kind string) appcontext.Ref {
		return appcontext.Ref{ID: manifest.ID{Version: "v1", Kind: kind, Name: "web"}, Digest: "d"}
	}
	bundle, err := contexts.PutBundle(t.Context(), appcontext.Bundle{
		Objects: []appcontext.Ref{id("ConfigMap")}, CRDs: []appcontext.Ref{id("CustomResourceDefinition")}, Hooks: []appcontext.HookRef{{Ref: id("Job")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		pair               appcontext.Pair
		commit, hookCommit string
		objects            int
	}{
		"all of it is applied": {appcontext.Pair{Desired: bundle, Applied: bundle, Commit: "c1"}, "c1", "c1", 2},
		"a step is sent":       {appcontext.Pair{Desired: bundle, Applied: "old", Sent: true, Commit: "c2"}, "", "c2", 2},
		"nothing is sent yet":  {appcontext.Pair{Desired: bundle, Applied: "old", Commit: "c0"}, "", "", 2},
		"it is being removed":  {appcontext.Pair{Applied: bundle, Commit: "c3"}, "", "", 0},
	} {
		tt.pair.Key = appcontext.PairKey{Cluster: v2.ClusterKey("p+" + name), UID: "7", App: "web"}
		if err := contexts.PutPairs(t.Context(), appcontext.Fence{}, []appcontext.Pair{tt.pair}, nil); err != nil {
			t.Fatal(err)
		}
		got, err := (&registration.Reader{Contexts: contexts}).Pairs(t.Context(), v2.ClusterKey("p+"+name))
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %+v, %v, want one pair", name, got, err)
			continue
		}
		p := got[0]
		if p.Commit != tt.commit || p.HookCommit != tt.hookCommit || len(p.Objects) != tt.objects || len(p.Hooks) != tt.objects/2 {
			t.Errorf("%s: got %+v", name, p)
		}
	}
}
