// Package run starts the services of the program in order. When the program ends or a service fails, it stops them one
// after the other, the last one first.
package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// Service is what a Group starts, watches and stops.
type Service interface {
	// Name is used in logs and on /readyz.
	Name() string
	// Run works until ctx ends and returns nil on a clean stop.
	Run(ctx context.Context) error
	// Ready returns why the service cannot work yet; nil when it can.
	Ready() error
}

// Stateful is a service that describes its state beyond readiness.
type Stateful interface {
	// State is a few words for people, such as "works on 9 of 16 shards".
	State() string
}

// Group runs services in order and stops them in reverse order. The first service
// that fails stops all others.
type Group struct {
	log      *slog.Logger
	services []Service
	every    time.Duration // between the looks of Run at the readiness; 0: none
	ready    atomic.Bool   // what the last look found
}

// NewGroup returns a group of services.
func NewGroup(log *slog.Logger, services ...Service) *Group {
	return &Group{log: log, services: services}
}

// WithLooks has Run look at the readiness regularly, for WasReady.
func (g *Group) WithLooks(every time.Duration) *Group {
	g.every = every
	return g
}

// Ready joins what keeps the services from being ready; nil when all are. It asks them at the same time, because some ask a
// store that may not answer.
func (g *Group) Ready() error {
	_, err := g.look()
	return err
}

// WasReady reports what the last call of Ready or Report, or the last look of Run, found. It asks no service.
func (g *Group) WasReady() bool { return g.ready.Load() }

// Report describes each service in one line. The error is that of Ready, of the same moment.
func (g *Group) Report() (string, error) {
	reasons, err := g.look()
	var b strings.Builder
	for i, s := range g.services {
		words := "ready"
		if reasons[i] != nil {
			words = "not ready: " + reasons[i].Error()
		}
		if more, ok := s.(Stateful); ok {
			words += "; " + more.State()
		}
		fmt.Fprintf(&b, "%s: %s\n", s.Name(), words)
	}
	return b.String(), err
}

// look returns what keeps each service from being ready, and all of that with the names of the services.
func (g *Group) look() ([]error, error) {
	reasons, named := make([]error, len(g.services)), make([]error, len(g.services))
	var all sync.WaitGroup
	for i, s := range g.services {
		all.Go(func() {
			if reasons[i] = s.Ready(); reasons[i] != nil {
				named[i] = fmt.Errorf("%s: %w", s.Name(), reasons[i])
			}
		})
	}
	all.Wait()
	err := errors.Join(named...)
	g.ready.Store(err == nil)
	return reasons, err
}

// watch looks at the readiness until ctx ends.
func (g *Group) watch(ctx context.Context) {
	for g.every > 0 && pause.For(ctx, g.every) == nil {
		_ = g.Ready()
	}
}

// Run starts all services and waits until ctx ends or one fails; then it stops them
// one after the other, the last one first, and returns what went wrong.
func (g *Group) Run(ctx context.Context) error {
	failed := make(chan struct{})
	var once sync.Once
	runs := make([]*runningService, len(g.services))
	for i, s := range g.services {
		runs[i] = start(ctx, s, func() { once.Do(func() { close(failed) }) })
		g.log.Info("service started", "service", s.Name())
	}
	watching, leave := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { g.watch(watching) })
	select {
	case <-ctx.Done():
	case <-failed:
	}
	leave()
	watch.Wait()
	var errs []error
	for i := len(runs) - 1; i >= 0; i-- {
		errs = append(errs, runs[i].stop())
		g.log.Info("service stopped", "service", g.services[i].Name())
	}
	return errors.Join(errs...)
}

// runningService is a service with a context of its own, so that services end in order
// and not all at once.
type runningService struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// start runs s until it is stopped; over is called if it ends before that.
func start(ctx context.Context, s Service, over func()) *runningService {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &runningService{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		err := s.Run(own)
		if own.Err() == nil {
			defer over()
			err = cmpErr(err, errors.New("it ended although nothing stopped it"))
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			r.err = fmt.Errorf("%s: %w", s.Name(), err)
		}
	}()
	return r
}

func (r *runningService) stop() error {
	r.cancel()
	<-r.done
	return r.err
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
