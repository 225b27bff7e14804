// Package mirror keeps heads, workflow runs, pairs, reports and the agents' last signs of life in memory, fed by one
// watch, so that reading a deployment costs etcd no read for each pair. It also signals changes: of agents
// (Agents), of heads and deployments (Subscribe), and to each Observer those of all heads, pairs and agents.
//
//	etcd ──watch──► index: head, pairs and reports of each deployment, at one revision
//	  ▲                │
//	  └──current revision?──  Snapshot: wait until the index has reached it
//
// A snapshot contains everything that was written before it was requested. If the watch does
// not reach that revision in time, the snapshot is read from etcd, at a higher cost.
package mirror

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
)

const (
	patience         = time.Second           // how long a snapshot waits for the watch
	patienceBehind   = 20 * time.Millisecond // the same, while the watch is known to be behind
	progressInterval = 50 * time.Millisecond // how often it requests progress meanwhile
)

// Mirror is the index and the watch that feeds it. Without Run, Snapshot reads etcd and the other
// methods know nothing.
type Mirror struct {
	store    *appcontext.Store
	feed     *appcontext.ChangeFeed
	log      *slog.Logger
	patience time.Duration
	behind   atomic.Bool // the last snapshot that waited for the index waited in vain

	mu        sync.RWMutex
	index     *index                  // nil until the first list was read; guarded by mu
	advanced  chan struct{}           // closed and replaced when the index advances; guarded by mu
	subs      subscribers             // guarded by mu
	listeners map[*agentListener]bool // guarded by mu
	observers []Observer              // before Run
}

// Observer gets each change of the index, in order. Its methods must not wait and must
// not call the mirror.
type Observer interface {
	// Restarted announces that all records follow again.
	Restarted()
	// HeadChanged hands over a head; nil if it is gone.
	HeadChanged(id appcontext.HeadID, h *appcontext.Head)
	// PairChanged hands over the records of a pair; nil if they are gone.
	PairChanged(key appcontext.PairKey, e *Entry)
	// AgentHeard reports when the agent of a cluster last reported.
	AgentHeard(cluster v2.ClusterKey, at time.Time)
	// Advanced reports that all records up to a revision were handed over.
	Advanced(mark int64)
}

// Observe makes o an observer. Call it before Run.
func (m *Mirror) Observe(o Observer) { m.observers = append(m.observers, o) }

// New returns a mirror of the store.
func New(store *appcontext.Store, log *slog.Logger) *Mirror {
	return &Mirror{
		store: store, feed: store.ChangeFeed(), log: log, patience: patience,
		advanced: make(chan struct{}), subs: newSubscribers(),
		listeners: map[*agentListener]bool{},
	}
}

// Name is "mirror".
func (m *Mirror) Name() string { return "mirror" }

// Ready returns why there is no index yet. Snapshots are then read from etcd, but what is
// answered from the index alone, such as views, would lack everything.
func (m *Mirror) Ready() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.index == nil {
		return errors.New("the records of clusters and deployments are still being read")
	}
	return nil
}

// Run keeps the index until ctx ends.
func (m *Mirror) Run(ctx context.Context) error {
	var fresh *index // while all records follow again
	var batch []appcontext.Record
	for r, err := range m.feed.Records(ctx) {
		switch {
		case err != nil:
			m.log.Error("a record of the AppContext cannot be read", "space", string(r.Space), "deployment", cmp.Or(r.Key.Deployment, r.HeadID.Deployment()), "cluster", r.Key.Cluster, "app", r.Key.App, "err", err)
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

// advance makes all records up to a revision visible at once, and notifies subscribers.
func (m *Mirror) advance(mark int64, fresh *index, batch []appcontext.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if fresh != nil {
		m.index = fresh
		for _, o := range m.observers {
			fresh.replay(o)
		}
		m.subs.notifyAll()
		for l := range m.listeners {
			fresh.markAll(l)
		}
	}
	for _, r := range batch {
		news := m.index.apply(r)
		for _, o := range m.observers {
			m.index.notifyObserver(o, r)
		}
		switch r.Space {
		case appcontext.AgentSpace:
			m.agentReportedLocked(r.Key.Cluster)
		case appcontext.RosterSpace:
		case appcontext.HeadSpace, appcontext.HookSpace:
			notify(m.subs.heads[r.HeadID], news)
		default:
			notify(m.subs.deployments[r.Key.Deployment], news)
		}
	}
	m.index.mark = mark
	for _, o := range m.observers {
		o.Advanced(mark)
	}
	m.behind.Store(false)
	close(m.advanced)
	m.advanced = make(chan struct{})
}

// agentReportedLocked notifies those who follow an agent that it has reported.
func (m *Mirror) agentReportedLocked(cluster v2.ClusterKey) {
	for l := range m.listeners {
		l.mark(cluster)
	}
	if len(m.subs.deployments) == 0 {
		return
	}
	for deployment := range m.index.touched(cluster) {
		notify(m.subs.deployments[deployment], false)
	}
}

// Snapshot is a deployment at one moment. It is shared and must not be changed.
type Snapshot struct {
	Head  *appcontext.Head         // nil: it does not exist
	Pairs Entries                  // of Head.Deployment
	Runs  []appcontext.WorkflowRun // the last ones of the head's workflows, in order of name
	At    int64                    // revision of etcd that the index had reached; 0: it was read from etcd
}

// Pair is one app on one cluster.
type Pair struct {
	Cluster v2.ClusterKey
	App     string
}

// Entry is the records of a pair.
type Entry struct {
	State    *appcontext.PairState // of the pair; nil: it does not exist
	Report   *Report               // nil: the cluster has not reported
	LastSign *LastSign             // the last sign of life of the cluster; nil: not known
}

// Snapshot returns the deployment of a head, with everything that was written before
// the call. Unavailable if etcd cannot be reached.
func (m *Mirror) Snapshot(ctx context.Context, id appcontext.HeadID) (Snapshot, error) {
	now, err := m.feed.Revision(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	if m.reach(ctx, now) {
		if s, ok := m.fromIndex(id); ok {
			return s, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return Snapshot{}, errs.E(errs.Unavailable, "read", "deployment "+string(id), err)
	}
	return m.read(ctx, id)
}

// ClusterPair is the entry of an app of a deployment.
type ClusterPair struct {
	UID v2.DeploymentID
	App string
	*Entry
}

// Cluster returns the entries of all deployments on a cluster, in order of deployment and app; none without an
// index. They may be a moment old.
func (m *Mirror) Cluster(name v2.ClusterKey) []ClusterPair {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.index == nil {
		return nil
	}
	return slices.Clone(m.index.clusters[name])
}

// Pairs returns the pairs of a cluster, in no order and without Registration; false without an index. They are at
// least as new as everything that the mirror has yielded before, such as agents. They are
// shared and must not be changed.
func (m *Mirror) Pairs(cluster v2.ClusterKey) ([]appcontext.Pair, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.index == nil {
		return nil, false
	}
	out := make([]appcontext.Pair, 0, len(m.index.clusters[cluster]))
	for _, p := range m.index.clusters[cluster] {
		if p.State != nil {
			out = append(out, p.State.Pair(appcontext.PairKey{Cluster: cluster, Deployment: p.UID, App: p.App}, ""))
		}
	}
	return out, true
}

// PairsOf returns the pairs of a deployment, in no order and without Registration; none without an index. They may be a moment old,
// are shared and must not be changed.
func (m *Mirror) PairsOf(id v2.DeploymentID) []appcontext.Pair {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.index == nil {
		return nil
	}
	entries := m.index.deployments[id]
	out := make([]appcontext.Pair, 0, entries.Len())
	for at, e := range entries.All() {
		if e.State != nil {
			out = append(out, e.State.Pair(appcontext.PairKey{Cluster: at.Cluster, Deployment: id, App: at.App}, ""))
		}
	}
	return out
}

// Document returns the key of the document that a deployment belongs to; empty if it is not
// known. It may be a moment old.
func (m *Mirror) Document(d v2.DeploymentID) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.index == nil {
		return ""
	}
	if h := m.index.heads[cmp.Or(m.index.heirs[d], appcontext.FirstHead(d))]; h != nil {
		return h.Document
	}
	return ""
}

// CatchUp waits, about a second at most, until observers have got everything that was
// written before the call.
func (m *Mirror) CatchUp(ctx context.Context) {
	if now, err := m.feed.Revision(ctx); err == nil {
		m.reach(ctx, now)
	}
}

// Await waits until there is an index. The error is that of ctx.
func (m *Mirror) Await(ctx context.Context) error {
	for {
		m.mu.RLock()
		there, advanced := m.index != nil, m.advanced
		m.mu.RUnlock()
		if there {
			return nil
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// HeadSince returns a head, nil if there is none, as it was at a revision of etcd or later; false if the index has not
// reached it. It is shared and must not be changed.
func (m *Mirror) HeadSince(id appcontext.HeadID, revision int64) (*appcontext.Head, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.index == nil || m.index.mark < revision || m.index.broken[recordKey{space: appcontext.HeadSpace, head: id}] {
		return nil, false
	}
	return m.index.heads[id], true
}

// fromIndex reads the index; false if a record of the deployment cannot be read.
func (m *Mirror) fromIndex(id appcontext.HeadID) (Snapshot, bool) {
	m.mu.Lock() // not RLock: the index notes what it lends
	defer m.mu.Unlock()
	if m.index == nil {
		return Snapshot{}, false
	}
	return m.index.snapshot(id)
}

// reach waits until the index has reached a revision; false if it does not in time.
func (m *Mirror) reach(ctx context.Context, revision int64) bool {
	for limit := (<-chan time.Time)(nil); ; {
		reached, advanced, wait := m.progress(revision)
		if reached {
			m.setBehind(false)
		}
		if reached || wait == 0 {
			return reached
		}
		if limit == nil {
			limit = time.After(wait)
		}
		if m.feed.RequestProgress(ctx) != nil {
			return false
		}
		select {
		case <-advanced:
		case <-time.After(progressInterval): // etcd does not answer while it has changes to send, or is too busy
		case <-limit:
			m.setBehind(true)
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// progress reports whether the index has reached a revision. advanced is closed when it
// advances, and wait is how long to wait for that.
func (m *Mirror) progress(revision int64) (reached bool, advanced <-chan struct{}, wait time.Duration) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case m.index == nil:
		return false, nil, 0
	case m.behind.Load():
		wait = min(patienceBehind, m.patience)
	default:
		wait = m.patience
	}
	return m.index.mark >= revision, m.advanced, wait
}

// setBehind records whether the index is behind.
func (m *Mirror) setBehind(yes bool) {
	if m.behind.Swap(yes) != yes && yes {
		m.log.Warn("the mirror is behind; statuses are read from etcd")
	}
}

// Behind reports whether the mirror does not know the latest changes. Subscriptions are
// silent then.
func (m *Mirror) Behind() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.behind.Load() || m.index == nil
}

// read reads a snapshot from etcd, and the keys of all pairs for that.
func (m *Mirror) read(ctx context.Context, id appcontext.HeadID) (Snapshot, error) {
	s, deployment := Snapshot{Pairs: Entries{}}, id.Deployment()
	head, err := m.store.Head(ctx, id)
	switch {
	case err == nil:
		s.Head, deployment = &head, head.Deployment()
	case !errs.Is(err, errs.NotFound):
		return s, err
	}
	if s.Runs, err = m.store.Runs(ctx, id); err != nil {
		return s, err
	}
	pairs, err := m.store.PairsOf(ctx, deployment)
	if err != nil {
		return s, err
	}
	keys := make([]appcontext.PairKey, len(pairs))
	for i, p := range pairs {
		keys[i] = p.Key
		s.Pairs.put(Pair{p.Key.Cluster, p.Key.App}, &Entry{State: pairstore.StateOf(p)})
	}
	reports, err := m.store.ReportsAt(ctx, keys)
	for _, r := range reports {
		s.Pairs.At(Pair{r.Key.Cluster, r.Key.App}).Report = compact(r)
	}
	if err != nil {
		return s, err
	}
	return s, m.readLives(ctx, s)
}

// readLives adds the last signs of life of the clusters.
func (m *Mirror) readLives(ctx context.Context, s Snapshot) error {
	names := map[v2.ClusterKey]bool{}
	for at := range s.Pairs.All() {
		names[at.Cluster] = true
	}
	agents, err := m.store.AgentsOf(ctx, slices.Sorted(maps.Keys(names)))
	known := lastSigns(agents)
	for at, e := range s.Pairs.All() {
		e.LastSign = known[at.Cluster]
	}
	return err
}
