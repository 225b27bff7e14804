package pairs_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
)

// twoShards are the Stores of two shards, which see each other's pairs by a mirror. App "db"
// is on edge+c1, in the first one; "web", which waits for it, on edge+c2, in the second.
type twoShards struct {
	*testing.T
	db, web  *pairs.Store
	seen     *mirror.Mirror
	clock    time.Time
	contexts *appcontext.Store
}

func newTwoShards(t *testing.T) *twoShards {
	t.Helper()
	n := &twoShards{T: t, clock: noon}
	contexts := contexttest.New(t)
	n.contexts = contexts
	n.seen = mirror.New(contexts, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = n.seen.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	for shard, l := range map[int]**pairs.Store{0: &n.db, 1: &n.web} {
		own := contexttest.Own(t, contexts, route.Group.Shard(shard), "a")
		*l = pairs.New(pairs.Config{
			AppContext: contexts, Fence: own, Shard: route.Group.Shard(shard), Retry: retry, Others: n.seen,
			NewWriter: func(stored *pairstore.Contents) pairs.PairWriter { return contexts.NewWriter(own, stored) },
			Now:       func() time.Time { return n.clock }, Plans: content.NewStepPlans(content.NewReader(contexts)),
		})
		if err := (*l).Load(t.Context(), pairstore.NewContents((*l).Shard())); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// bundle stores a bundle of one object with a content.
func (n *twoShards) bundle(content string) appcontext.Digest {
	n.Helper()
	d, err := n.contexts.PutBundle(n.Context(), appcontext.Bundle{Objects: []appcontext.Ref{{ID: configMap("it"), Digest: "d", Stamp: content}}})
	if err != nil {
		n.Fatal(err)
	}
	return d
}

// want has one of the shards write what a revision of both apps wants.
func (n *twoShards) want(l *pairs.Store, rev int64, db, web string) {
	n.Helper()
	one := map[v2.ClusterKey]map[string]appcontext.Digest{"edge+c1": {"db": n.bundle(db)}}
	two := map[v2.ClusterKey]map[string]appcontext.Digest{"edge+c2": {"web": n.bundle(web)}}
	w := pair.Desired{Deployment: "7", Head: "7", Rev: rev, Places: one, Elsewhere: two, Apps: []appcontext.App{
		{Name: "db"}, {Name: "web", DependsOn: []appcontext.Dependency{{App: "db", Ready: true}}},
	}}
	if l == n.web {
		w.Places, w.Elsewhere = two, one
	}
	setDesired(n.T, l, w)
}

// deliver records as delivered what is due in a shard.
func (n *twoShards) deliver(l *pairs.Store) {
	n.Helper()
	var out []pair.Result
	for _, t := range l.All() {
		for _, p := range pair.AllDeliverable(l.Of(t)) {
			out = append(out, pair.Result{Key: p.Key, Bundle: p.Desired, Rev: p.Rev})
		}
	}
	if err := l.Record(n.Context(), out); err != nil {
		n.Fatal(err)
	}
}

// says reports the content of an app.
func (n *twoShards) says(l *pairs.Store, app string, cluster v2.ClusterKey, status, content string) {
	n.Helper()
	_, err := l.Report(n.Context(), []appcontext.Report{{
		Key: appcontext.PairKey{Cluster: cluster, Deployment: "7", App: app}, Seq: 1,
		Resources: []appcontext.ResourceStatus{{ID: configMap("it"), Status: status, Content: content}},
	}})
	if err != nil {
		n.Fatal(err)
	}
}

// waits checks why the second app waits, after its gate was checked.
func (n *twoShards) waits(want string) {
	n.Helper()
	n.clock = n.clock.Add(5 * time.Second)
	if _, err := n.web.OpenGates(n.Context(), "7"); err != nil {
		n.Fatal(err)
	}
	p := n.web.Of(pair.Target{Cluster: "edge+c2", Deployment: "7"})[0]
	if (want == "") != (p.Blocked == "") || !strings.Contains(p.Blocked, want) {
		n.Errorf("web is blocked by %q, want %q", p.Blocked, want)
	}
}

// An app waits for an app of another shard, whichever shard processes the revision first.
func TestOrderHoldsAcrossShards(t *testing.T) {
	t.Parallel()
	n := newTwoShards(t)
	n.want(n.web, 1, "1", "1")
	n.waits("waits for app db on edge+c1: not applied yet")
	n.want(n.db, 1, "1", "1")
	n.waits("waits for app db on edge+c1: not applied yet")
	n.deliver(n.db)
	n.waits("waits for app db on edge+c1: the cluster has never reported")
	n.says(n.db, "db", "edge+c1", "InProgress", "1")
	n.waits("waits for app db on edge+c1: not ready")
	n.says(n.db, "db", "edge+c1", "Current", "1")
	n.waits("")
	n.deliver(n.web)

	n.want(n.web, 2, "2", "2") // the first app's shard has not seen the revision: the old one is ready there
	n.waits("waits for app db on edge+c1: not applied yet")
	n.want(n.db, 2, "2", "2")
	n.deliver(n.db)
	n.waits("waits for app db on edge+c1: not ready")
	n.says(n.db, "db", "edge+c1", "Current", "2")
	n.waits("")
	n.deliver(n.web)

	apps := []appcontext.App{{Name: "db"}, {Name: "web", DependsOn: []appcontext.Dependency{{App: "db", Ready: true}}}}
	for _, l := range []*pairs.Store{n.db, n.web} { // removal goes the other way round
		setDesired(t, l, pair.Desired{Deployment: "7", Head: "7", Rev: 2, Removed: true, Apps: apps})
	}
	if p := n.db.Of(pair.Target{Cluster: "edge+c1", Deployment: "7"})[0]; !strings.Contains(p.Blocked, "waits for app web to be gone from edge+c2") {
		t.Errorf("db is blocked by %q, want it to wait for web", p.Blocked)
	}
	n.deliver(n.web)
	n.clock = n.clock.Add(5 * time.Second)
	if due, err := n.db.OpenGates(t.Context(), "7"); err != nil || len(due) != 1 {
		t.Errorf("due %v, %v, want db to go on", due, err)
	}
}

// Pairs that wait for another shard's start when that shard reports what they wait for.
func TestChangesInOtherShardsOpenGates(t *testing.T) {
	t.Parallel()
	n := newTwoShards(t)
	n.want(n.web, 1, "1", "1")
	ctx, cancel := context.WithCancel(t.Context())
	opened, ended := make(chan pair.Target), make(chan struct{})
	go func() {
		defer close(ended)
		n.web.RunGates(ctx, func(ctx context.Context, targets []pair.Target) {
			for _, target := range targets {
				select {
				case opened <- target:
				case <-ctx.Done():
				}
			}
		})
	}()
	n.want(n.db, 1, "1", "1")
	n.deliver(n.db)
	n.says(n.db, "db", "edge+c1", "Current", "1")
	if got := <-opened; got != (pair.Target{Cluster: "edge+c2", Deployment: "7"}) {
		t.Errorf("%v may start, want web", got)
	}
	cancel()
	<-ended
}
