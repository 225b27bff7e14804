package rsync

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/branchguard"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/clustermove"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/git"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// Parts are what the service works with.
type Parts struct {
	DB       *store.DB
	Contexts *appcontext.Store
	Mirror   *mirror.Mirror // of Contexts; somebody runs it. Nil if no app waits for another one
	Backends *syncer.Registry
	Rules    gitops.Rules // which Git addresses are allowed
	Git      git.Committer
	Kube     *kube.Sink
	Member   appcontext.Member // this process, as those that share its work see it
	Retry    pair.Retry
	Workers  int                // directly reached clusters worked on at the same time
	Differ   branchguard.Differ // tells what others changed; nil: nobody looks
	Look     time.Duration      // how often branches are looked at for that; 0: only before commits
	Sources  []Source           // of reports on clusters that are not watched from here
	Log      *slog.Logger
}

// Retry says when a delivery that failed is tried again.
type Retry = pair.Retry

// Service carries out what the AppContext asks for. Several processes share the work by
// shards; for each shard that is this process' a dispatcher works.
//
//	heads, branches ──► feed, desk ──► dispatcher of shard 3 ──► lanes ──► sinks
//	   (one watch)      (one reading)  dispatcher of shard 7 ──► …
type Service struct {
	parts    Parts
	gateway  *route.Resolver
	contents *content.Reader
	slots    chan struct{} // bounds the clusters worked on at the same time
	callers  chan struct{} // bounds the clusters of which the platforms are told something at the same time

	sharing  *appcontext.Sharing
	feed     *feed
	desk     *desk
	loader   *loader
	branches *branchguard.Records
	moves    *clustermove.Progress
	terms    *terms
}

// New returns the service.
func New(p Parts) *Service {
	m := clustermove.NewProgress(p.Contexts, p.Log)
	g := &route.Resolver{DB: p.DB, Backends: p.Backends, Rules: p.Rules, Moves: m}
	s := &Service{
		parts: p, gateway: g, contents: content.NewReader(p.Contexts), slots: make(chan struct{}, p.Workers), callers: make(chan struct{}, p.Workers),
		feed: newFeed(p.Log), desk: newDesk(p.Contexts, g.Shards), loader: newLoader(p.Contexts, g),
		branches: branchguard.NewRecords(p.Contexts, p.Log), moves: m, terms: newTerms(),
	}
	s.sharing = p.Contexts.Share(route.Group, p.Member, s.term)
	return s
}

// Name is "rsync".
func (s *Service) Name() string { return route.Group.Kind }

// Ready says so until this process has joined the others, and its shards have caught up
// with what was there when they began. A process whose shards are still worked on by
// another one is ready, and so is one that has none.
func (s *Service) Ready() error {
	if err := s.sharing.Ready(); err != nil {
		return err
	}
	if n := s.sharing.Standing().Working - s.terms.ready(); n > 0 {
		return fmt.Errorf("%d shards have not caught up with the AppContext", n)
	}
	return nil
}

// State says which part of the work is this process'.
func (s *Service) State() string { return s.sharing.String() }

// Run works until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { s.feed.run(ctx, s.parts.Contexts) })
	beside.Go(func() { s.branches.Run(ctx) })
	beside.Go(func() { s.moves.Run(ctx) })
	beside.Go(func() { s.listen(ctx) })
	return s.sharing.Run(ctx)
}

// term is one time of owning a shard: everything that the shard's dispatcher knows is
// read anew, and nothing of it goes on when it ends.
func (s *Service) term(ctx context.Context, n int, own *appcontext.Ownership) error {
	ctx, cancel := context.WithCancel(ctx)
	d := newDispatcher(ctx, s, n, own.Fence())
	s.terms.begin(d)
	defer s.terms.end(d)
	defer d.stop()
	defer cancel()
	return d.run(ctx)
}

// alone reports whether this process has all the work.
func (s *Service) alone() bool { return s.sharing.Standing().Working == route.Group.Shards }

// terms are the dispatchers that work now.
type terms struct {
	mu    sync.Mutex
	all   map[*dispatcher]bool // true once it has caught up
	moved chan struct{}        // holds a token when one has begun or ended
}

func newTerms() *terms { return &terms{all: map[*dispatcher]bool{}, moved: make(chan struct{}, 1)} }

func (t *terms) begin(d *dispatcher) { t.change(func() { t.all[d] = false }) }
func (t *terms) end(d *dispatcher)   { t.change(func() { delete(t.all, d) }) }

func (t *terms) change(how func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	how()
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

// caughtUp notes that a dispatcher has taken in what there was.
func (t *terms) caughtUp(d *dispatcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, works := t.all[d]; works {
		t.all[d] = true
	}
}

// ready counts those that have caught up.
func (t *terms) ready() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ready := range t.all {
		if ready {
			n++
		}
	}
	return n
}

// working returns the dispatchers that work now.
func (t *terms) working() []*dispatcher {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*dispatcher, 0, len(t.all))
	for d := range t.all {
		out = append(out, d)
	}
	return out
}
