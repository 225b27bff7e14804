package clustermove_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/clustermove"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

// movingPairs are those of deployment 7 on the cluster that moves.
type movingPairs struct{ clustermove.Pairs }

func (movingPairs) On(cluster v2.ClusterKey) []pair.Target {
	return []pair.Target{{Cluster: cluster, Deployment: "7"}}
}

// movingGit counts what is carried and cleared.
type movingGit struct {
	clustermove.GitWriter
	carried, cleared int
}

func (g *movingGit) Carry(context.Context, []pair.Target, route.Route) (git.Hash, error) {
	g.carried++
	return "carried", nil
}

func (g *movingGit) Clear(context.Context, []pair.Target, route.Route) (git.Hash, error) {
	g.cleared++
	return "cleared", nil
}

// moving is a cluster that moves from branch main to a branch of its own.
type moving struct {
	*testing.T
	contexts *appcontext.Store
	git      *movingGit
	mover    *clustermove.Mover
	uid      string // of the registration
}

func newMoving(t *testing.T) *moving {
	t.Helper()
	m := &moving{T: t, contexts: contexttest.New(t), git: &movingGit{}}
	db := resourcetest.DB(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := db.Create(t.Context(), store.Write{Key: "cluster-providers/edge", Body: []byte(`{}`)})
	must(err)
	_, err = db.Create(t.Context(), store.Write{
		Key: "cluster-providers/edge/cluster-sync-objects/repo", Parent: "cluster-providers/edge",
		Secret: seal.Secret(`{"metadata":{"name":"repo"},"spec":{"kv":[{"url":"https://git.example/fleet"},{"branch":"main"},{"userName":"emco"},{"gitToken":"secret"}]}}`),
	})
	must(err)
	c := v2.Cluster{Named: v2.Named{Metadata: v2.Metadata{Name: "c1"}}}
	c.Spec.GitOps = v2.GitOps{Type: "git", Reference: "repo", RefMode: syncobjects.RefCluster, Moved: v2.GitOpsMove{Number: 1, From: v2.GitOpsLocation{Type: "git"}}}
	body, err := json.Marshal(c)
	must(err)
	doc, err := db.Create(t.Context(), store.Write{Key: "cluster-providers/edge/clusters/c1", Parent: "cluster-providers/edge", Body: body})
	must(err)
	m.uid = doc.UID
	log := slog.New(slog.DiscardHandler)
	progress := clustermove.NewProgress(m.contexts, log)
	m.mover = clustermove.New(clustermove.Options{
		Shard: fleet.Shard(), Store: m.contexts, Routes: &route.Resolver{DB: db, Backends: backends.Backends(), Moves: progress},
		Pairs: movingPairs{}, Progress: progress, Git: m.git, Retry: pair.Retry{First: 1, Longest: 1}, Log: log,
		HoldRepairs: func() func() { return func() {} }, Requeue: func(context.Context, []pair.Target) {},
		RequeueAfter: func(pair.Target, time.Duration) {},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { progress.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return m
}

// stage returns the stored stage of the move, with its error.
func (m *moving) stage() string {
	m.Helper()
	r, err := m.contexts.Relocation(m.Context(), "edge+c1")
	if err != nil {
		m.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprint(r.Stage, " ", r.Error))
}

// work does the work of the move in its queue.
func (m *moving) work() {
	m.Helper()
	r, err := m.mover.Routes.Lookup().Route(m.Context(), "edge+c1")
	if err != nil {
		m.Fatal(err)
	}
	m.mover.Work(m.Context(), map[v2.ClusterKey]route.Route{"edge+c1": r})
}

// While another shard has something on the cluster, nothing is carried: the new place would
// show a part as the whole.
func TestAClusterIsCarriedAsAWhole(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	if err := m.contexts.AskRelocation(t.Context(), gitstate.Relocation{Cluster: "edge+c1", Registration: m.uid, Number: 1}); err != nil {
		t.Fatal(err)
	}
	other := appcontext.Pair{Key: appcontext.PairKey{Cluster: "edge+c1", Deployment: "8", App: "db"}, Applied: "bundle", Shard: route.Group.Shard(fleet.Shard() + 1)}
	if err := m.contexts.PutPairs(t.Context(), appcontext.Fence{}, []appcontext.Pair{other}, nil); err != nil {
		t.Fatal(err)
	}
	m.work()
	if got := m.stage(); m.git.carried != 0 || !strings.Contains(got, "still has app db") {
		t.Errorf("carried %d times, stage %q; want it to wait for the other shard", m.git.carried, got)
	}
	if err := m.contexts.PutPairs(t.Context(), appcontext.Fence{}, nil, []appcontext.PairKey{other.Key}); err != nil {
		t.Fatal(err)
	}
	m.work()
	if got := m.stage(); m.git.carried != 1 || got != string(gitstate.MoveWritten) {
		t.Errorf("carried %d times, stage %q", m.git.carried, got)
	}
}

// The old place stays until an operator confirms that the cluster reads the new one.
func TestTheOldPlaceStaysWhileItIsRead(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	taken := gitstate.Relocation{Cluster: "edge+c1", Registration: m.uid, Number: 1, Stage: gitstate.MoveTaken, Deployments: []v2.DeploymentID{"7"}}
	if _, err := m.contexts.PutRelocation(t.Context(), appcontext.Fence{}, taken); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { m.mover.Run(ctx); close(done) }()
	until := func(what string, ok func(gitstate.Relocation) bool) {
		t.Helper()
		for e := range m.contexts.WatchRelocations(t.Context()) {
			if !e.Synced && ok(e.Relocation) {
				return
			}
		}
		t.Errorf("%s: the watch ended", what)
	}
	until("it waits", func(r gitstate.Relocation) bool {
		return strings.Contains(r.Error, "finish the move") || r.Stage == gitstate.MoveDone
	})
	if m.git.cleared != 0 {
		t.Error("the old place was cleared while the cluster may read it")
	}
	if err := m.contexts.AskRelocation(t.Context(), gitstate.Relocation{Cluster: "edge+c1", Registration: m.uid, Number: 1, Finish: true}); err != nil {
		t.Fatal(err)
	}
	until("it is done", func(r gitstate.Relocation) bool { return r.Stage == gitstate.MoveDone })
	cancel()
	<-done
	if m.git.cleared != 1 {
		t.Errorf("the old place was cleared %d times", m.git.cleared)
	}
}
