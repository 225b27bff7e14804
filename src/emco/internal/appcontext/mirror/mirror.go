// Package mirror keeps what clusters hold and say in memory, fed by one watch, so that a
// question about a deployment costs etcd no read for each pair.
//
//	etcd ──watch──► index: head, pairs and reports of each deployment, at one revision
//	  ▲                │
//	  └──which revision is it now?──  question: wait until the index has got there
//
// An answer holds at least what was written before it was asked for. If the watch does
// not get there in time, the question is answered from etcd itself, at a greater cost.
package mirror

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// How long a question waits for the watch before it is answered from etcd: at first, and
// as long as the watch is known to be behind; and how often the watch is asked meanwhile.
const (
	patience     = time.Second
	lessPatience = 20 * time.Millisecond
	askAgain     = 50 * time.Millisecond
)

// Mirror is the index and the watch that feeds it. Without Run it answers from etcd.
type Mirror struct {
	store    *appcontext.Store
	tap      *appcontext.ChangeFeed
	log      *slog.Logger
	patience time.Duration
	behind   atomic.Bool // the last question that waited for the index waited in vain

	mu    sync.RWMutex
	index *index        // nil until the first list has been read
	moved chan struct{} // closed, and replaced, when the index gets further
	subs  map[string]map[*Subscription]bool

	listeners map[*listener]bool
}

// New returns a mirror of the store.
func New(store *appcontext.Store, log *slog.Logger) *Mirror {
	return &Mirror{
		store: store, tap: store.ChangeFeed(), log: log, patience: patience,
		moved: make(chan struct{}), subs: map[string]map[*Subscription]bool{},
		listeners: map[*listener]bool{},
	}
}

// Name is "mirror".
func (m *Mirror) Name() string { return "mirror" }

// Ready is always nil: questions are answered from etcd as long as need be.
func (m *Mirror) Ready() error { return nil }

// Run keeps the index until ctx ends.
func (m *Mirror) Run(ctx context.Context) error {
	var fresh *index // while everything is told anew
	var batch []appcontext.Record
	for r, err := range m.tap.Records(ctx) {
		switch {
		case err != nil:
			m.log.Error("a record of the AppContext cannot be read", "space", string(r.Space), "deployment", r.Key.UID, "cluster", r.Key.Cluster, "app", r.Key.App, "err", err)
			r.Gone = false
			fallthrough
		case !r.Restart && r.UpTo == 0 && fresh == nil:
			batch = append(batch, r)
		case r.Restart:
			fresh, batch = newIndex(), nil
		case r.UpTo == 0:
			fresh.apply(r)
		default:
			m.advance(r.UpTo, fresh, batch)
			fresh, batch = nil, nil
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index = nil
	return nil
}

// advance makes what was told up to a mark visible at once, and tells those concerned.
func (m *Mirror) advance(mark int64, fresh *index, batch []appcontext.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if fresh != nil {
		m.index = fresh
		for _, subs := range m.subs {
			notify(subs, true)
		}
		for l := range m.listeners {
			fresh.markAll(l)
		}
	}
	for _, r := range batch {
		news := m.index.apply(r)
		if r.Space == appcontext.AgentSpace {
			m.alive(r.Key.Cluster)
		} else {
			notify(m.subs[r.Key.UID], news)
		}
	}
	m.index.mark = mark
	m.behind.Store(false)
	close(m.moved)
	m.moved = make(chan struct{})
}

// alive tells those concerned that an agent has said something.
func (m *Mirror) alive(cluster string) {
	for l := range m.listeners {
		l.mark(cluster)
	}
	if len(m.subs) == 0 {
		return
	}
	for uid := range m.index.touched(cluster) {
		notify(m.subs[uid], false)
	}
}

// Snapshot is what is known of a deployment at one moment. The map is the caller's; what
// it points at is shared and may not be changed.
type Snapshot struct {
	Head   *appcontext.Head // nil: there is none
	Places map[Place]*Entry // of the id by which clusters know the deployment
}

// Place is one app on one cluster.
type Place struct{ Cluster, App string }

// Entry is what is known of a place.
type Entry struct {
	Pair   *appcontext.Pair // nil: there is none
	Report *Report          // nil: the cluster has said nothing
	Life   *Life            // when it last said anything; nil: that is not known
}

// Snapshot returns what is known of the deployment that the head uid is about. It holds
// all that was written before the call. Unavailable if etcd cannot be reached.
func (m *Mirror) Snapshot(ctx context.Context, uid string) (Snapshot, error) {
	now, err := m.tap.Revision(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	if m.reach(ctx, now) {
		if s, ok := m.look(uid); ok {
			return s, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return Snapshot{}, errs.E(errs.Unavailable, "read", "deployment "+uid, err)
	}
	return m.read(ctx, uid)
}

// Cluster returns what is known of all deployments on a cluster, in no order; nothing as
// long as there is no index. It may be a moment old.
func (m *Mirror) Cluster(name string) []*Entry {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.index == nil {
		return nil
	}
	return slices.Collect(maps.Values(m.index.clusters[name]))
}

// Pairs returns the pairs of a cluster, in no order; false as long as there is no index.
// They are at least as new as whatever the mirror has told before, of agents for instance.
// What they point at is shared and may not be changed.
func (m *Mirror) Pairs(cluster string) ([]appcontext.Pair, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.index == nil {
		return nil, false
	}
	out := make([]appcontext.Pair, 0, len(m.index.clusters[cluster]))
	for _, e := range m.index.clusters[cluster] {
		if e.Pair != nil {
			out = append(out, *e.Pair)
		}
	}
	return out, true
}

// look copies what the index has; false if it has something that it could not read.
func (m *Mirror) look(uid string) (Snapshot, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.index == nil {
		return Snapshot{}, false
	}
	return m.index.snapshot(uid)
}

// reach waits until the index has got to a revision; false if it does not in time.
func (m *Mirror) reach(ctx context.Context, revision int64) bool {
	for limit := (<-chan time.Time)(nil); ; {
		there, moved, wait := m.progress(revision)
		if there {
			m.late(false)
		}
		if there || wait == 0 {
			return there
		}
		if limit == nil {
			limit = time.After(wait)
		}
		if m.tap.RequestProgress(ctx) != nil {
			return false
		}
		select {
		case <-moved:
		case <-time.After(askAgain): // etcd does not answer while it has something to tell, or if it is too busy
		case <-limit:
			m.late(true)
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// progress reports whether the index has got to a revision, what is closed when it gets
// further, and how long that is worth waiting for.
func (m *Mirror) progress(revision int64) (there bool, moved <-chan struct{}, wait time.Duration) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case m.index == nil:
		return false, nil, 0
	case m.behind.Load():
		wait = min(lessPatience, m.patience)
	default:
		wait = m.patience
	}
	return m.index.mark >= revision, m.moved, wait
}

// late notes whether the index got somewhere in time.
func (m *Mirror) late(yes bool) {
	if m.behind.Swap(yes) != yes && yes {
		m.log.Warn("the mirror is behind; questions are answered from etcd")
	}
}

// Behind reports whether the mirror does not know what happens just now. Subscriptions
// are silent then.
func (m *Mirror) Behind() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.behind.Load() || m.index == nil
}

// read answers from etcd. It reads the keys of all pairs.
func (m *Mirror) read(ctx context.Context, uid string) (Snapshot, error) {
	s, deployment := Snapshot{Places: map[Place]*Entry{}}, uid
	head, err := m.store.Head(ctx, uid)
	switch {
	case err == nil:
		s.Head, deployment = &head, head.Deployment()
	case !errs.Is(err, errs.NotFound):
		return s, err
	}
	pairs, err := m.store.PairsOf(ctx, deployment)
	if err != nil {
		return s, err
	}
	keys := make([]appcontext.PairKey, len(pairs))
	for i, p := range pairs {
		keys[i] = p.Key
		s.Places[Place{p.Key.Cluster, p.Key.App}] = &Entry{Pair: &pairs[i]}
	}
	reports, err := m.store.ReportsAt(ctx, keys)
	for _, r := range reports {
		s.Places[Place{r.Key.Cluster, r.Key.App}].Report = compact(r)
	}
	if err != nil {
		return s, err
	}
	return s, m.readLives(ctx, s)
}

// readLives adds when clusters last said something.
func (m *Mirror) readLives(ctx context.Context, s Snapshot) error {
	names := map[string]bool{}
	for at := range s.Places {
		names[at.Cluster] = true
	}
	agents, err := m.store.AgentsOf(ctx, slices.Sorted(maps.Keys(names)))
	known := lives(agents)
	for at, e := range s.Places {
		e.Life = known[at.Cluster]
	}
	return err
}
