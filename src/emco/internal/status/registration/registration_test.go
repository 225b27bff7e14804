package registration_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/registration"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// All clusters are read at first and after a sync object was written; otherwise only those that were written themselves. A label, or a document elsewhere,
// has none read.
func TestClustersAreReadWhenTheyChange(t *testing.T) {
	t.Parallel()
	driver, blobs := resourcetest.Driver(t)
	reads := &resourcetest.Reads{Driver: driver}
	db := store.New(reads, blobs, seal.New(seal.NewKey()))
	r := &registration.Reader{Routes: &route.Resolver{DB: db}, Log: slog.New(slog.DiscardHandler)}
	put := func(key store.Key, doc any) {
		t.Helper()
		resourcetest.Put(t, db, key, doc, "")
	}
	register := func(names ...string) {
		t.Helper()
		for _, name := range names {
			var c v2.Cluster
			c.Metadata.Name, c.Spec.GitOps = name, v2.GitOps{Type: "fluxcd", Reference: "repo"}
			put(store.Key("cluster-providers/edge/clusters/"+name), c)
		}
	}
	repo := func(url string) {
		t.Helper()
		resourcetest.Put(t, db, "cluster-providers/edge/cluster-sync-objects/repo", nil, `{"metadata":{"name":"repo"},"spec":{"kv":[{"url":"`+url+`"},{"branch":"main"},{"userName":"emco"},{"gitToken":"secret"}]}}`)
	}
	remove := func(key store.Key) {
		t.Helper()
		if err := db.Delete(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	mark := int64(0)
	want := func(what string, since bool, most int64, gone []v2.ClusterKey, names ...v2.ClusterKey) {
		t.Helper()
		reads.Got.Store(0)
		reads.Listed.Store(0)
		list, err := r.Clusters(t.Context(), mark)
		if err != nil {
			t.Fatal(err)
		}
		var got []v2.ClusterKey
		for _, c := range list.Clusters {
			got = append(got, c.Name)
		}
		if list.Since != since || !slices.Equal(got, names) || !slices.Equal(list.Gone, gone) {
			t.Errorf("%s: since is %v, clusters are %v, gone are %v, want %v, %v and %v", what, list.Since, got, list.Gone, since, names, gone)
		}
		if n := reads.Got.Load() + reads.Listed.Load(); n > most {
			t.Errorf("%s: %d documents were read, want %d at most", what, n, most)
		}
		mark = list.Mark
	}
	put("cluster-providers/edge", v2.Named{})
	repo("https://git.example.com/fleet")
	register("a")
	want("at first", false, 3, nil, "edge+a")
	want("later", true, 0, nil)
	put("projects/p", v2.Named{})
	put("cluster-providers/edge/clusters/a/labels/west", v2.ClusterLabel{Label: "west"})
	want("after other documents were written", true, 0, nil)
	register("b", "c")
	want("after two clusters were registered", true, 3, nil, "edge+b", "edge+c")
	remove("cluster-providers/edge/clusters/a/labels/west")
	remove("cluster-providers/edge/clusters/a")
	want("after a cluster was deleted", true, 1, []v2.ClusterKey{"edge+a"})
	remove("cluster-providers/edge/cluster-sync-objects/repo")
	repo("https://git.example.com/moved")
	want("after the repository moved", false, 4, nil, "edge+b", "edge+c")
	want("later again", true, 0, nil)
	var lost v2.Cluster
	lost.Metadata.Name, lost.Spec.GitOps = "lost", v2.GitOps{Type: "fluxcd", Reference: "none"}
	put("cluster-providers/edge/clusters/lost", lost)
	want("after a cluster without its sync object", true, 2, []v2.ClusterKey{"edge+lost"})
	want("while the sync object is missing", true, 0, nil)
	many := []string{"b", "c"}
	for n := range 500 {
		many = append(many, fmt.Sprintf("n%03d", n))
	}
	register(many[2:]...)
	var names []v2.ClusterKey
	for _, name := range many {
		names = append(names, v2.NewClusterKey("edge", name))
	}
	want("after a fleet was registered", true, 501, nil, names[2:]...)
	want("at last", true, 0, nil)
}

// What the last report proved is part of what a cluster should hold.
func TestPairsHaveTheProofOfTheLastReport(t *testing.T) {
	t.Parallel()
	contexts := contexttest.New(t)
	proof := appcontext.Proof{By: "c3", Holds: "c2"}
	reported, silent := appcontext.PairKey{Cluster: "p+c", Deployment: "7", App: "web"}, appcontext.PairKey{Cluster: "p+c", Deployment: "8", App: "web"}
	err := contexts.PutPairs(t.Context(), appcontext.Fence{}, []appcontext.Pair{{Key: reported}, {Key: silent}}, nil)
	if err == nil {
		err = contexts.PutReports(t.Context(), appcontext.Fence{}, []appcontext.Report{{Key: reported, Seq: 4, Commit: "c3", Proof: proof}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := mirror.New(contexts, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	defer running.Wait()
	defer cancel()
	if err := m.Await(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := (&registration.Reader{Contexts: contexts, Mirror: m}).Pairs(t.Context(), "p+c")
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, p := range got {
		want := appcontext.Proof{}
		if p.Key == reported {
			want = proof
		}
		if p.Proof != want {
			t.Errorf("%v: the proof is %+v, want %+v", p.Key, p.Proof, want)
		}
	}
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
