package generation

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Service begins generations. While the stores are of different ones it is not ready: a store was restored under the
// running program.
type Service struct {
	stores Stores
	first  time.Duration // from the start to the first generation
	every  time.Duration
	log    *slog.Logger

	begins sync.Mutex    // held while a generation begins, and during a backup
	soon   chan struct{} // a backup has ended

	mu    sync.Mutex
	apart *Apart // guarded by mu; nil: the stores belong together
}

// NewService returns a service that begins a generation after first, and then one in each period of every.
func NewService(s Stores, first, every time.Duration, log *slog.Logger) *Service {
	return &Service{stores: s, first: first, every: every, log: log, soon: make(chan struct{}, 1)}
}

// Name implements run.Service.
func (s *Service) Name() string { return "generations" }

// Ready implements run.Service.
func (s *Service) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apart != nil {
		return s.apart
	}
	return nil
}

// farewell bounds the beginning of the last generation.
const farewell = 3 * time.Second

// Run implements run.Service. A generation that cannot begin is tried again in the next period. The last one begins when ctx ends: a copy
// of one store from before then and of the other one from after it are distinguished.
func (s *Service) Run(ctx context.Context) error {
	for wait := s.first; ; wait = s.every {
		select {
		case <-time.After(wait):
		case <-s.soon:
		case <-ctx.Done():
			if s.Ready() == nil && s.begins.TryLock() { // else a backup still runs
				ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
				defer cancel()
				s.advance(ending)
			}
			return nil
		}
		s.begins.Lock()
		s.advance(ctx)
	}
}

// advance begins a generation. The caller holds begins, which advance releases.
func (s *Service) advance(ctx context.Context) {
	err := s.stores.Advance(ctx, time.Now())
	s.begins.Unlock()
	s.note(ctx, err)
}

func (s *Service) note(ctx context.Context, err error) {
	apart, found := errors.AsType[*Apart](err)
	s.mu.Lock()
	if found || err == nil {
		s.apart = apart
	}
	s.mu.Unlock()
	switch {
	case found:
		s.log.Error("a store was restored without the other one: stop all processes, and start one, which names the way back", "err", err)
	case err != nil && ctx.Err() == nil:
		s.log.Warn("cannot begin a generation of the stores; EMCO tries again", "err", err)
	case err == nil:
		s.log.Debug("a generation of the stores has begun")
	}
}

// Hold keeps generations from beginning during a backup, which copies the stores one after the other. The next one begins
// when the backup ends.
func (s *Service) Hold() (release func()) {
	s.begins.Lock()
	return func() {
		s.begins.Unlock()
		select {
		case s.soon <- struct{}{}:
		default:
		}
	}
}
