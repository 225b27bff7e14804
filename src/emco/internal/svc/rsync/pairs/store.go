// Package pairs keeps the pairs of one shard, and the last report on each. How a pair changes is in package pair, and
// how etcd holds pairs in appcontext/pairstore. Pairs and reports
// are written to etcd first and remembered then, so the pairs that the Store returns are
// never ahead of what survives a crash. SetDesired remembers the head of a deployment, its order, and
// that it is not stopped. Then it writes the pairs. Then it remembers the document and the logical cloud. etcd holds
// none of these: after a start SetDesired gets them from the head again. A change stores reports first, updates
// readiness in memory, then the history of clusters, and stores pairs last: a pair never becomes Applied with the readiness of
// what it held before.
//
// The package also checks gates when they may open (RunGates), watches the pairs of other
// shards for that, moves pairs from step to step as reports arrive, hands pairs over to
// other shards, and collects events for people.
//
//	head change ── SetDesired ─┐                 ┌─► index       pairs by target, deployment, cluster
//	delivery ───── Record ─────┼─► etcd, then ───┼─► reportCache the last report on each pair
//	report ─────── Report ─────┤    memory       ├─► gateQueue   deployments whose gates to check
//	open gate ──── OpenGates ──┘                 └─► events      for people
package pairs

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/clusterhistory"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/events"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// AppContext is where pairs of all shards are read.
type AppContext interface {
	PairsAt(ctx context.Context, keys []appcontext.PairKey) ([]appcontext.Pair, error)
	Barrier(ctx context.Context, own appcontext.Fence) error
	Reported(ctx context.Context, cluster v2.ClusterKey) (bool, error)
}

// PairWriter writes the pairs of one shard; *pairstore.Writer does.
type PairWriter interface {
	Write(ctx context.Context, put []appcontext.Pair, remove []appcontext.PairKey) error
	AddRecords(pairs ...appcontext.Pair)
	ReportWriter
}

// ReportWriter writes and reads the reports on the pairs of one shard; *pairstore.Writer does.
type ReportWriter interface {
	WriteReports(ctx context.Context, c pairstore.ReportChange) error
	ReportsAt(ctx context.Context, keys []appcontext.PairKey) ([]appcontext.Report, error)
	ReleaseReports(ctx context.Context, keys []appcontext.PairKey) error
}

// ClusterHistory keeps what clusters held; *appcontext.Store does.
type ClusterHistory interface {
	AddClusterHistory(ctx context.Context, entries ...clusterhistory.Entry) error
}

// Config is what a Store works with.
type Config struct {
	AppContext AppContext
	NewWriter  func(stored *pairstore.Contents) PairWriter // of the shard's pairs, with the fence
	Fence      appcontext.Fence
	Shard      string // the name that the shard's pairs carry
	Retry      pair.Retry
	Plans      *content.StepPlans
	Others     Others           // nil: no pair waits for pairs of other shards
	History    ClusterHistory   // nil: it is not kept
	Now        func() time.Time // nil for the clock
	Log        *slog.Logger     // nil discards
}

// Store is the one place that changes the pairs of a shard.
type Store struct {
	cfg Config

	// writing serializes changes: a method that changes pairs holds it from its first look
	// at memory to the end, also while it waits for etcd. The comments of methods without a
	// lock of their own require that the caller holds it.
	writing  sync.Mutex
	writer   PairWriter      // guarded by writing; set by Load
	reports  reportCache     // guarded by writing
	gates    gateChecker     // guarded by writing, except its queue
	recorder events.Recorder // guarded by writing

	*memory // what readers see; it has its own lock, and changes only while writing is held
}

// New returns an empty Store; Load fills it.
func New(cfg Config) *Store {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m := newMemory()
	s := &Store{cfg: cfg, reports: newReportCache(m, cfg.AppContext.Reported), memory: m}
	s.gates = gateChecker{cfg: cfg, queue: newGateQueue(), memory: m, reports: &s.reports}
	return s
}

// Load remembers what etcd holds of the shard's pairs, and must be called first. Pairs that do not
// carry the shard's name yet are written with it, so that no other shard adopts them.
func (s *Store) Load(ctx context.Context, stored *pairstore.Contents) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.writer = s.cfg.NewWriter(stored)
	s.reports.store = s.writer
	shared := newSharedValues()
	var unnamed []appcontext.Pair
	for p, err := range stored.Pairs() {
		if err != nil {
			return err
		}
		if s.keep(p, shared); p.Shard != s.cfg.Shard {
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
	repeated  []appcontext.Report               // what etcd holds already; it may be stored with others
	readiness map[appcontext.PairKey]lastReport // remembered even if the report equals the stored one
}

// chunk is how many pairs are stored and then remembered at a time: when a later chunk
// fails, earlier ones need not be stored again.
const chunk = 50_000

// write stores a change and then remembers it. Reports on removed pairs go with them. The
// caller holds writing.
func (s *Store) write(ctx context.Context, c change) error {
	for i := range c.put {
		c.put[i].Shard = s.cfg.Shard
	}
	if len(c.reports)+len(c.repeated)+len(c.remove) > 0 {
		reports := pairstore.ReportChange{Put: c.reports, Repeated: c.repeated, Remove: c.remove, Shared: s.storedWithAgent}
		if err := s.writer.WriteReports(ctx, reports); err != nil {
			return err
		}
	}
	if s.cfg.History != nil {
		if err := s.cfg.History.AddClusterHistory(ctx, s.historyOf(c)...); err != nil {
			return err
		}
	}
	shared := newSharedValues()
	for k, r := range c.readiness {
		s.setReadiness(k, r, shared.reports)
	}
	for put := range slices.Chunk(c.put, chunk) {
		if err := s.putPairs(ctx, put, nil); err != nil {
			return err
		}
		for _, p := range put {
			old, known := s.keep(p, shared)
			s.recorder.PairChanged(old, p)
			if !known {
				s.reports.setNone(p.Key)
			}
		}
	}
	for remove := range slices.Chunk(c.remove, chunk) {
		if err := s.putPairs(ctx, nil, remove); err != nil {
			return err
		}
		for _, k := range remove {
			s.recorder.PairRemoved(k)
			s.forget(k)
		}
	}
	return nil
}

// putPairs writes to etcd. After an error nothing is known about what etcd holds of the
// pairs. The caller holds writing.
func (s *Store) putPairs(ctx context.Context, put []appcontext.Pair, remove []appcontext.PairKey) error {
	err := s.writer.Write(ctx, put, remove)
	if err != nil {
		s.memory.addUnconfirmed(put, remove)
	}
	return err
}

// sharedValues holds the states and reports that pairs of one change share; another change has its
// own copies.
type sharedValues struct {
	states  pairstore.Interner
	reports equalReports
}

func newSharedValues() sharedValues { return sharedValues{pairstore.NewInterner(), equalReports{}} }

// keep remembers a pair that etcd holds, and returns what was remembered of it, if anything was. The caller holds
// writing.
func (s *Store) keep(p appcontext.Pair, shared sharedValues) (old appcontext.Pair, known bool) {
	old, known = s.memory.put(p, shared.states.Of(p))
	if p.Phase == appcontext.Applied {
		s.reports.dropDetails(p.Key, shared.reports)
	}
	s.gates.queue.pairChanged(old, p)
	return old, known
}

// forget forgets a pair that etcd no longer holds, or that another shard has. The caller
// holds writing.
func (s *Store) forget(k appcontext.PairKey) {
	old := s.memory.remove(k)
	s.gates.queue.pairChanged(old, appcontext.Pair{Key: k})
}

// changed returns the pairs that differ from memory, or whose last write is unconfirmed. It
// filters the slice in place. The caller holds writing.
func (s *Store) changed(pairs []appcontext.Pair) []appcontext.Pair {
	return slices.DeleteFunc(pairs, func(p appcontext.Pair) bool {
		old, known := s.index.pair(p.Key)
		return known && !s.unconfirmed.known[p.Key] && pairstore.Equal(&p, &old)
	})
}

// Shard returns the name of the shard.
func (s *Store) Shard() string { return s.cfg.Shard }

// Fence returns the fence of all writes of the shard.
func (s *Store) Fence() appcontext.Fence { return s.cfg.Fence }
