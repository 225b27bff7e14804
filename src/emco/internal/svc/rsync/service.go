package rsync

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/branchguard"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/clustermove"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/gitwriter"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/shard"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
)

// Parts are what the service works with.
type Parts struct {
	DB       *store.DB
	Contexts *appcontext.Store
	Mirror   *mirror.Mirror // of Contexts, which the caller runs; nil if no app waits for another one
	Backends *syncer.Registry
	Rules    syncobjects.Rules // which Git addresses are allowed
	Git      gitwriter.Committer
	Kube     *kube.Sink
	Member   shards.Member // this process among those that share the work
	Retry    Retry
	Workers  int                // direct clusters, and clusters whose platforms are called: how many of each are worked on at the same time
	Differ   branchguard.Differ // finds what others changed; nil: nothing does
	Interval time.Duration      // between two checks of a branch for edits by others; 0: only before commits
	Weight   func(string) int   // shares of a project while others wait; nil: one
	Sources  []Source           // of reports on clusters that are not watched from here
	Panics   *contain.Panics
	Tracer   *tracing.Tracer // nil: nothing is traced
	Log      *slog.Logger
}

// spareClusters are direct clusters beyond Parts.Workers, for projects that work on none.
const spareClusters = 4

// Retry determines when a failed delivery is tried again.
type Retry = pair.Retry

// Service runs a shard.Shard for each shard that this process owns. It runs once what all
// of them share: the watches of heads, branches and moves, and the sources of reports.
type Service struct {
	sources []Source
	log     *slog.Logger

	heads  *shard.HeadFeed
	shared shard.Shared
	group  *shards.Runner // the processes that share the work
	shards *runningShards
}

// New returns the service.
func New(p Parts) *Service {
	moves := clustermove.NewProgress(p.Contexts, p.Log)
	routes := &route.Resolver{DB: p.DB, Backends: p.Backends, Rules: p.Rules, Moves: moves, LastKnown: route.NewLastKnown(p.Log)}
	heads := shard.NewHeadFeed(p.Log)
	s := &Service{
		sources: p.Sources, log: p.Log, heads: heads, shards: newRunningShards(),
		shared: shard.Shared{
			Contexts: p.Contexts, Heads: heads, Routes: routes, Moves: moves, Content: content.NewReader(p.Contexts),
			Revisions: shard.NewRevisionCache(p.Contexts, routes.Shards), Loader: shard.NewPairLoader(p.Contexts, routes),
			Branches: branchguard.NewRecords(p.Contexts, p.Log),
			Git:      p.Git, Kube: p.Kube, Differ: p.Differ, Interval: p.Interval, Retry: p.Retry,
			ApplyPermits: fairshare.New(fairshare.Options{Permits: p.Workers, Spare: spareClusters, NotFresh: max(1, p.Workers*3/4), Weight: p.Weight}), Weight: p.Weight, PlatformPermits: make(chan struct{}, p.Workers), Panics: p.Panics, Tracer: p.Tracer, Log: p.Log,
		},
	}
	if p.Mirror != nil {
		s.shared.Others = p.Mirror
	}
	s.shared.Alone = func() bool { return s.group.Status().Working == route.Group.Shards }
	s.group = p.Contexts.ShardRunner(route.Group, p.Member, s.runShard)
	return s
}

// Name is "rsync".
func (s *Service) Name() string { return route.Group.Kind }

// Ready returns an error until this process has joined the group, and its shards have
// reconciled the heads of their start. A process whose shards are still run by another one
// is ready, and so is one without shards.
func (s *Service) Ready() error {
	if err := s.group.Ready(); err != nil {
		return err
	}
	if n := s.group.Status().Working - s.shards.ready(); n > 0 {
		return fmt.Errorf("%d shards have not caught up with the AppContext", n)
	}
	return nil
}

// UsesLastKnown reports whether the documents are away, and deliveries use the settings and credentials that were read last.
func (s *Service) UsesLastKnown() bool { return s.shared.Routes.LastKnown.Used() }

// OnBranch returns how many clusters this process delivers to on a branch, and the sum of what numbers has for these.
func (s *Service) OnBranch(url, name string, numbers map[v2.ClusterKey]int) (clusters, sum int) {
	for _, sh := range s.shards.list() {
		n, m := sh.OnBranch(route.Branch{URL: url, Name: name}, numbers)
		clusters, sum = clusters+n, sum+m
	}
	return clusters, sum
}

// State describes the part of the work that this process does.
func (s *Service) State() string { return s.group.String() }

// Run works until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	others.Go(func() { s.heads.Run(ctx, s.shared.Contexts) })
	others.Go(func() { s.shared.Branches.Run(ctx) })
	others.Go(func() { s.shared.Moves.Run(ctx) })
	others.Go(func() { s.runSources(ctx) })
	others.Go(func() { s.followDocuments(ctx) })
	return s.group.Run(ctx)
}

// runShard runs a shard for one term of owning it.
func (s *Service) runShard(ctx context.Context, n int, own *shards.Ownership) error {
	ctx, cancel := context.WithCancel(ctx)
	var sh *shard.Shard
	sh = shard.New(ctx, s.shared, n, own.Fence(), func() { s.shards.caughtUp(sh) })
	s.shards.add(sh)
	defer s.shards.remove(sh)
	defer sh.Stop()
	defer cancel()
	return sh.Run(ctx)
}

// runningShards are the shards that this process runs now.
type runningShards struct {
	changed chan struct{} // holds a token when a shard was added or removed

	mu  sync.Mutex
	all map[*shard.Shard]bool // true if it has caught up; guarded by mu
}

func newRunningShards() *runningShards {
	return &runningShards{changed: make(chan struct{}, 1), all: map[*shard.Shard]bool{}}
}

func (r *runningShards) add(sh *shard.Shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[sh] = false
	r.signal()
}

func (r *runningShards) remove(sh *shard.Shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, sh)
	r.signal()
}

func (r *runningShards) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *runningShards) caughtUp(sh *shard.Shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.all[sh]; running {
		r.all[sh] = true
	}
}

// ready counts the shards that have caught up.
func (r *runningShards) ready() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ready := range r.all {
		if ready {
			n++
		}
	}
	return n
}

func (r *runningShards) list() []*shard.Shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.all))
}
