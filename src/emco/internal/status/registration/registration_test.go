package registration_test

import (
	"log/slog"
	"slices"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/registration"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// The clusters are listed again after a document of their provider was written, and after no other.
func TestClustersAreListedWhenTheyChange(t *testing.T) {
	t.Parallel()
	db := resourcetest.DB(t)
	r := &registration.Reader{Routes: &route.Resolver{DB: db}, Log: slog.New(slog.DiscardHandler)}
	put := func(key store.Key, doc any) {
		t.Helper()
		resourcetest.Put(t, db, key, doc, "")
	}
	cluster := func(name string) (c v2.Cluster) {
		c.Metadata.Name, c.Spec.GitOps = name, v2.GitOps{Type: "fluxcd", Reference: "repo"}
		return c
	}
	mark := int64(0)
	want := func(what string, unchanged bool, names ...v2.ClusterKey) {
		t.Helper()
		list, err := r.Clusters(t.Context(), mark)
		if err != nil {
			t.Fatal(err)
		}
		var got []v2.ClusterKey
		for _, c := range list.Clusters {
			got = append(got, c.Name)
		}
		if list.Unchanged != unchanged || !slices.Equal(got, names) {
			t.Errorf("%s: unchanged is %v, clusters are %v, want %v and %v", what, list.Unchanged, got, unchanged, names)
		}
		mark = list.Mark
	}
	put("cluster-providers/edge", v2.Named{})
	resourcetest.Put(t, db, "cluster-providers/edge/cluster-sync-objects/repo", nil, `{"metadata":{"name":"repo"},"spec":{"kv":[{"url":"https://git.example.com/fleet"},{"branch":"main"},{"userName":"emco"},{"gitToken":"secret"}]}}`)
	put("cluster-providers/edge/clusters/a", cluster("a"))
	want("at first", false, "edge+a")
	want("later", true)
	put("projects/p", v2.Named{})
	want("after another document was written", true)
	put("cluster-providers/edge/clusters/b", cluster("b"))
	want("after a cluster was registered", false, "edge+a", "edge+b")
	if err := db.Delete(t.Context(), "cluster-providers/edge/clusters/a", nil); err != nil {
		t.Fatal(err)
	}
	want("after a cluster was deleted", false, "edge+b")
	want("at last", true)
}

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
		tt.pair.Key = appcontext.PairKey{Cluster: v2.ClusterKey("p+" + name), Deployment: "7", App: "web"}
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
