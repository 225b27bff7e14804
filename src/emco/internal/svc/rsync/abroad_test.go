package rsync

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// neighbours are the ledgers of two shards, which see each other by a mirror. App "db" is
// on edge+c1, in the first one; "web", which waits for it, on edge+c2, in the second.
type neighbours struct {
	*testing.T
	db, web *ledger
	seen    *mirror.Mirror
	clock   time.Time
}

func newNeighbours(t *testing.T) *neighbours {
	t.Helper()
	n := &neighbours{T: t, clock: noon}
	contexts := contexttest.New(t)
	n.seen = mirror.New(contexts, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = n.seen.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	for shard, l := range map[int]**ledger{0: &n.db, 1: &n.web} {
		own, err := contexts.Own(t.Context(), route.Group.Shard(shard), "a", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = own.Release(context.Background()) })
		*l = &ledger{
			store: contexts, fence: own.Fence(), shard: route.Group.Shard(shard), retry: retry, elsewhere: n.seen,
			now: func() time.Time { return n.clock }, ways: content.NewStepPlans(content.NewReader(contexts)),
		}
		if err := (*l).load(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// bundle stores a bundle of one object with a content.
func (n *neighbours) bundle(content string) appcontext.Digest {
	n.Helper()
	d, err := n.db.store.(*appcontext.Store).PutBundle(n.Context(), appcontext.Bundle{Objects: []appcontext.Ref{{ID: configMap("it"), Digest: "d", Stamp: content}}})
	if err != nil {
		n.Fatal(err)
	}
	return d
}

// wish has one of the shards take in a revision of both apps.
func (n *neighbours) wish(l *ledger, rev int64, db, web string) {
	n.Helper()
	one := map[string]map[string]appcontext.Digest{"edge+c1": {"db": n.bundle(db)}}
	two := map[string]map[string]appcontext.Digest{"edge+c2": {"web": n.bundle(web)}}
	w := pair.Desired{Deployment: "7", Head: "7", Rev: rev, Places: one, Elsewhere: two, Apps: []appcontext.App{
		{Name: "db"}, {Name: "web", DependsOn: []appcontext.Dependency{{App: "db", Ready: true}}},
	}}
	if l == n.web {
		w.Places, w.Elsewhere = two, one
	}
	l.mustIntend(n.T, w)
}

// deliver settles what is due in a shard.
func (n *neighbours) deliver(l *ledger) {
	n.Helper()
	var out []pair.Result
	for _, t := range l.all() {
		for _, p := range pair.AllDeliverable(l.of(t)) {
			out = append(out, pair.Result{Key: p.Key, Bundle: p.Desired, Rev: p.Rev})
		}
	}
	if err := l.settle(n.Context(), out); err != nil {
		n.Fatal(err)
	}
}

// says has the cluster of an app report its content.
func (n *neighbours) says(l *ledger, app, cluster, status, content string) {
	n.Helper()
	_, err := l.report(n.Context(), []appcontext.Report{{
		Key: appcontext.PairKey{Cluster: cluster, UID: "7", App: app}, Seq: 1,
		Resources: []appcontext.ResourceStatus{{ID: configMap("it"), Status: status, Content: content}},
	}})
	if err != nil {
		n.Fatal(err)
	}
}

// waits checks why the second app waits, after another look.
func (n *neighbours) waits(want string) {
	n.Helper()
	n.clock = n.clock.Add(retell)
	if _, err := n.web.reopen(n.Context(), "7"); err != nil {
		n.Fatal(err)
	}
	p := n.web.of(pair.Target{Cluster: "edge+c2", UID: "7"})[0]
	if (want == "") != (p.Blocked == "") || !strings.Contains(p.Blocked, want) {
		n.Errorf("web is blocked by %q, want %q", p.Blocked, want)
	}
}

// An app waits for one that another shard has, whichever of them hears of a revision first.
func TestOrderHoldsAcrossShards(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	n.wish(n.web, 1, "1", "1")
	n.waits("waits for app db on edge+c1: not applied yet")
	n.wish(n.db, 1, "1", "1")
	n.waits("waits for app db on edge+c1: not applied yet")
	n.deliver(n.db)
	n.waits("waits for app db on edge+c1: the cluster has never reported")
	n.says(n.db, "db", "edge+c1", "InProgress", "1")
	n.waits("waits for app db on edge+c1: not ready")
	n.says(n.db, "db", "edge+c1", "Current", "1")
	n.waits("")
	n.deliver(n.web)

	n.wish(n.web, 2, "2", "2") // the first app's shard has not heard of it: what is ready there is the old one
	n.waits("waits for app db on edge+c1: not applied yet")
	n.wish(n.db, 2, "2", "2")
	n.deliver(n.db)
	n.waits("waits for app db on edge+c1: not ready")
	n.says(n.db, "db", "edge+c1", "Current", "2")
	n.waits("")
	n.deliver(n.web)

	apps := []appcontext.App{{Name: "db"}, {Name: "web", DependsOn: []appcontext.Dependency{{App: "db", Ready: true}}}}
	for _, l := range []*ledger{n.db, n.web} { // removal goes the other way round
		l.mustIntend(t, pair.Desired{Deployment: "7", Head: "7", Rev: 2, Removed: true, Apps: apps})
	}
	if p := n.db.of(pair.Target{Cluster: "edge+c1", UID: "7"})[0]; !strings.Contains(p.Blocked, "waits for app web to be gone from edge+c2") {
		t.Errorf("db is blocked by %q, want it to wait for web", p.Blocked)
	}
	n.deliver(n.web)
	n.clock = n.clock.Add(retell)
	if due, err := n.db.reopen(t.Context(), "7"); err != nil || len(due) != 1 {
		t.Errorf("due %v, %v, want db to go on", due, err)
	}
}

// A shard of which pairs wait looks again when something changes in another one.
func TestChangesElsewhereAreNoticed(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	stirred := make(chan string, 100)
	far := &lookouts{elsewhere: n.seen, stir: func(uid string) { stirred <- uid }, ends: map[string]context.CancelFunc{}}
	ctx, cancel := context.WithCancel(t.Context())
	far.watch(ctx, map[string]bool{"7": true})
	<-stirred // it is looked at when the lookout begins
	n.wish(n.db, 1, "1", "1")
	if got := <-stirred; got != "7" {
		t.Errorf("%s was stirred", got)
	}
	far.watch(ctx, nil)
	far.wait()
	if len(far.ends) > 0 {
		t.Errorf("%d lookouts are left", len(far.ends))
	}
	cancel()
}
