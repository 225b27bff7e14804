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
}

// NewGroup returns a group of services.
func NewGroup(log *slog.Logger, services ...Service) *Group {
	return &Group{log: log, services: services}
}

// Ready joins what keeps the services from being ready; nil when all are.
func (g *Group) Ready() error {
	var errs []error
	for _, s := range g.services {
		if err := s.Ready(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// Report describes each service in one line.
func (g *Group) Report() string {
	var b strings.Builder
	for _, s := range g.services {
		words := "ready"
		if err := s.Ready(); err != nil {
			words = "not ready: " + err.Error()
		}
		if more, ok := s.(Stateful); ok {
			words += "; " + more.State()
		}
		fmt.Fprintf(&b, "%s: %s\n", s.Name(), words)
	}
	return b.String()
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
	select {
	case <-ctx.Done():
	case <-failed:
	}
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
