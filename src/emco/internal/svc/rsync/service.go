package rsync

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

const (
	shard     = "rsync" // what the service owns while it works
	ownership = 10 * time.Second
)

// Parts are what the service works with.
type Parts struct {
	DB       *store.DB
	Contexts *appcontext.Store
	Backends *syncer.Registry
	Rules    gitops.Rules // which Git addresses are allowed
	Git      commits
	Kube     *kube.Sink
	Holder   string // name of this process; one that starts again under it takes over at once
	Retry    Retry
	Workers  int      // directly reached clusters worked on at the same time
	Sources  []Source // of reports on clusters that are not watched from here
	Log      *slog.Logger
}

// Service carries out what the AppContext asks for. One process at a time does so.
type Service struct {
	parts    Parts
	gateway  *gateway
	contents *contents
	caughtUp atomic.Bool
}

// New returns the service.
func New(p Parts) *Service {
	return &Service{
		parts:    p,
		gateway:  &gateway{db: p.DB, registry: p.Backends, rules: p.Rules, backends: map[string]syncer.Backend{}},
		contents: &contents{store: p.Contexts},
	}
}

// Name is "rsync".
func (s *Service) Name() string { return shard }

// Ready says so until the state that was there at the start has been taken in, or
// another process works.
func (s *Service) Ready() error {
	if !s.caughtUp.Load() {
		return errors.New("has not caught up with the AppContext; another process may be at work")
	}
	return nil
}

// Run works until ctx ends. When the ownership is lost it waits for it anew.
func (s *Service) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := s.term(ctx)
		s.caughtUp.Store(false)
		if err != nil && ctx.Err() == nil {
			s.parts.Log.Warn("rsync starts anew", "err", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

// term is one time of ownership: everything it knows is read anew, and nothing of it
// goes on when it ends.
func (s *Service) term(ctx context.Context) error {
	own, err := s.parts.Contexts.Own(ctx, shard, s.parts.Holder, ownership)
	if err != nil {
		return err
	}
	defer func() { _ = own.Release(context.WithoutCancel(ctx)) }()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-own.Lost():
			return errors.New("ownership was lost")
		}
	})
	g.Go(func() error {
		d := newDispatcher(ctx, s, own.Fence())
		defer d.stop()
		return d.run(ctx)
	})
	return g.Wait()
}

// pause waits; it returns early when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
