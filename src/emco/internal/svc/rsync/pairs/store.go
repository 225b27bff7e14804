// Package pairs keeps the pairs of one shard, and the last report on each. Every change is
// written to etcd first and remembered then, so what the Store returns is never ahead of
// what survives a crash.
//
//	head change ── SetDesired ─┐                 ┌─► index       pairs by target, deployment, cluster
//	delivery ───── Record ─────┼─► etcd, then ───┼─► reportCache the last report on each pair
//	report ─────── Report ─────┤    memory       ├─► gateQueue   deployments whose gates to check
//	open gate ──── OpenGates ──┘                 └─► events      for people
package pairs

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/events"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// AppContext is where pairs and reports are stored.
type AppContext interface {
	PutPairs(ctx context.Context, own appcontext.Fence, put []appcontext.Pair, remove []appcontext.PairKey) error
	PutReports(ctx context.Context, own appcontext.Fence, put []appcontext.Report, remove []appcontext.PairKey) error
	PairsAt(ctx context.Context, keys []appcontext.PairKey) ([]appcontext.Pair, error)
	Calm(ctx context.Context, own appcontext.Fence) error
	reportReader
}

// Config is what a Store works with.
type Config struct {
	AppContext AppContext
	Fence      appcontext.Fence
	Shard      string // the name that the shard's pairs carry
	Retry      pair.Retry
	Plans      *content.StepPlans
	Others     Others           // nil if there are no other shards
	Now        func() time.Time // nil for the clock
	Log        *slog.Logger     // nil discards
}

// Store is the one place that changes the pairs of a shard.
type Store struct {
	cfg   Config
	gates gateQueue // locks itself

	// writing serializes changes: a method that changes pairs holds it from its first look
	// at memory to the end, also while it waits for etcd.
	writing  sync.Mutex
	reports  reportCache     // guarded by writing
	recorder events.Recorder // guarded by writing

	// mu guards the fields below. They change only while both writing and mu are held, so
	// a method that holds writing reads them without mu. Nothing waits for etcd with mu
	// held: readers never wait for a write.
	mu          sync.Mutex
	index       index
	deployments map[string]deployment
	unconfirmed unconfirmedWrites
	unsettled   unsettledPairs
	handovers   int64 // how often pairs were handed over or taken over
}

// New returns an empty Store; Load fills it.
func New(cfg Config) *Store {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{
		cfg: cfg, gates: newGateQueue(), reports: newReportCache(cfg.AppContext), index: newIndex(),
		deployments: map[string]deployment{}, unconfirmed: newUnconfirmedWrites(), unsettled: unsettledPairs{},
	}
}

// Load remembers the shard's pairs. Those that do not carry the shard's name yet are
// written with it, so that no other shard adopts them.
func (s *Store) Load(ctx context.Context, stored []appcontext.Pair) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	var unnamed []appcontext.Pair
	for _, p := range stored {
		if s.keep(p); p.Shard != s.cfg.Shard {
			unnamed = append(unnamed, p)
		}
	}
	return s.write(ctx, change{put: unnamed})
}

// change is what is written together.
type change struct {
	put       []appcontext.Pair
	remove    []appcontext.PairKey
	reports   []appcontext.Report
	readiness map[appcontext.PairKey]lastReport // remembered, whether the report is written or not
}

// chunk is how many pairs are stored and then remembered at a time: when a later chunk
// fails, earlier ones need not be stored again.
const chunk = 2000

// write stores a change and then remembers it. Reports on removed pairs go with them. The
// caller holds writing.
func (s *Store) write(ctx context.Context, c change) error {
	for i := range c.put {
		c.put[i].Shard = s.cfg.Shard
	}
	if len(c.reports)+len(c.remove) > 0 {
		if err := s.cfg.AppContext.PutReports(ctx, s.cfg.Fence, c.reports, c.remove); err != nil {
			return err
		}
	}
	for k, r := range c.readiness {
		s.setReadiness(k, r)
	}
	for put := range slices.Chunk(c.put, chunk) {
		if err := s.put(ctx, put, nil); err != nil {
			return err
		}
		for _, p := range put {
			old, known := s.index.pair(p.Key)
			if !known {
				s.reports.setNone(p.Key)
			}
			s.recorder.PairChanged(old, p)
			s.keep(p)
		}
	}
	for remove := range slices.Chunk(c.remove, chunk) {
		if err := s.put(ctx, nil, remove); err != nil {
			return err
		}
		for _, k := range remove {
			s.recorder.PairRemoved(k)
			s.forget(k)
		}
	}
	return nil
}

// put writes to etcd. After an error nothing is known about what etcd holds of the pairs.
func (s *Store) put(ctx context.Context, put []appcontext.Pair, remove []appcontext.PairKey) error {
	err := s.cfg.AppContext.PutPairs(ctx, s.cfg.Fence, put, remove)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unconfirmed.add(&s.index, put, remove)
	}
	return err
}

// keep remembers a pair that etcd holds. The caller holds writing.
func (s *Store) keep(p appcontext.Pair) {
	old, _ := s.index.pair(p.Key)
	s.mu.Lock()
	s.index.put(p)
	s.unsettled.update(p)
	s.unconfirmed.confirm(p.Key)
	s.mu.Unlock()
	if p.Phase == appcontext.Applied {
		s.reports.dropDetails(p.Key)
	}
	s.gates.pairChanged(old, p)
}

// forget forgets a pair that etcd no longer holds, or that another shard has. The caller
// holds writing.
func (s *Store) forget(k appcontext.PairKey) {
	old, _ := s.index.pair(k)
	s.mu.Lock()
	s.index.remove(k)
	s.unsettled.remove(k)
	s.unconfirmed.confirm(k)
	if d, known := s.deployments[k.UID]; known && !s.index.has(k.UID) {
		d.subject, d.namespace, d.cloud = "", "", appcontext.Cloud{}
		s.setDeploymentLocked(k.UID, d)
	}
	s.mu.Unlock()
	s.reports.remove(k)
	s.gates.pairChanged(old, appcontext.Pair{Key: k})
}

// changed returns the pairs that differ from memory, or whose last write is unconfirmed.
func (s *Store) changed(pairs []appcontext.Pair) []appcontext.Pair {
	return slices.DeleteFunc(slices.Clone(pairs), func(p appcontext.Pair) bool {
		old, known := s.index.pair(p.Key)
		return known && !s.unconfirmed.known[p.Key] && reflect.DeepEqual(p, old)
	})
}

// deployment is what is known of a deployment besides its pairs.
type deployment struct {
	head      string // uid of the head that it belongs to
	subject   string // key of its document
	namespace string // of its logical cloud
	cloud     appcontext.Cloud
	wanted    bool   // something of it is desired
	stopped   bool   // nothing more is done for it
	order     *order // nil if its pairs do not wait for each other
}

// updateDeployment changes what is known of a deployment. The caller holds writing.
func (s *Store) updateDeployment(uid string, how func(*deployment)) {
	d := s.deployments[uid]
	how(&d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setDeploymentLocked(uid, d)
}

func (s *Store) setDeploymentLocked(uid string, d deployment) {
	if d == (deployment{}) {
		delete(s.deployments, uid)
	} else {
		s.deployments[uid] = d
	}
}

// ---- What others read. None of these waits for etcd.

// Shard returns the name of the shard.
func (s *Store) Shard() string { return s.cfg.Shard }

// Fence returns the fence of all writes of the shard.
func (s *Store) Fence() appcontext.Fence { return s.cfg.Fence }

// Retry says when deliveries are tried again.
func (s *Store) Retry() pair.Retry { return s.cfg.Retry }

// Of returns the pairs of a target, in order of app.
func (s *Store) Of(t pair.Target) []appcontext.Pair {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.index.pairs[t]), pair.CompareKeys)
}

// TargetsOf returns the targets of a deployment, in order.
func (s *Store) TargetsOf(deployment string) []pair.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.index.byDeployment[deployment]), pair.CompareTargets)
}

// On returns the targets on a cluster, in order.
func (s *Store) On(cluster string) []pair.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.index.byCluster[cluster]), pair.CompareTargets)
}

// All returns every target that has pairs, in order.
func (s *Store) All() []pair.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.index.pairs), pair.CompareTargets)
}

// Clusters returns the clusters on which a deployment has pairs, or may have.
func (s *Store) Clusters(deployment string) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]bool{}
	for t := range s.index.byDeployment[deployment] {
		out[t.Cluster] = true
	}
	for _, p := range s.unconfirmed.newPairs(deployment) {
		out[p.Key.Cluster] = true
	}
	return out
}

// Split parts clusters into those on which a deployment has pairs, and the others.
func (s *Store) Split(deployment string, clusters map[string]bool) (own map[string]bool, others []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own = map[string]bool{}
	for c := range clusters {
		if len(s.index.pairs[pair.Target{Cluster: c, UID: deployment}]) > 0 {
			own[c] = true
		} else {
			others = append(others, c)
		}
	}
	return own, others
}

// Unsettled returns the clusters on which a deployment does not hold what is desired.
func (s *Store) Unsettled(deployment string) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]bool{}
	for k := range s.unsettled[deployment] {
		out[k.Cluster] = true
	}
	return out
}

// Plain reports whether a deployment's next revision can be compared with the last one
// alone: its pairs do not wait for each other, it is not stopped, and all its writes are
// confirmed.
func (s *Store) Plain(deployment string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.deployments[deployment]
	return d.order == nil && !d.stopped && !s.unconfirmed.any(deployment)
}

// Handovers counts how often pairs were handed over or taken over. What was worked out
// from the Store's pairs may be written only while that number stays the same.
func (s *Store) Handovers() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handovers
}

// Subject returns the key of a deployment's document, or the deployment's id if that is
// not known.
func (s *Store) Subject(deployment string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.deployments[deployment].subject, deployment)
}

// Head returns the uid of the head that a deployment belongs to, "" if that is not known,
// and whether anything of the deployment is desired.
func (s *Store) Head(deployment string) (uid string, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.deployments[deployment]
	return d.head, d.wanted
}

// Address returns a target as backends see it when they plan.
func (s *Store) Address(t pair.Target, r route.Route) syncer.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, d := r.Target(t.Cluster, t.UID), s.deployments[t.UID]
	out.Namespace = d.namespace
	out.Cloud = syncer.Cloud{Name: d.cloud.Name, Confined: d.cloud.Confined, Account: d.cloud.Account}
	return out
}

// Needs returns the apps that an app of a deployment depends on.
func (s *Store) Needs(k appcontext.PairKey) (out []syncer.Dependency) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.deployments[k.UID].order
	if o == nil {
		return nil
	}
	for _, d := range o.apps[k.App].DependsOn {
		out = append(out, syncer.Dependency{App: d.App, Ready: d.Ready})
	}
	return out
}
