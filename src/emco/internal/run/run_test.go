package run

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// closeJournal records the order of the ends of services.
type closeJournal struct {
	mu    sync.Mutex
	ended []string
}

type fakeService struct {
	name string
	j    *closeJournal
	fail chan error
}

func (f fakeService) Name() string { return f.name }
func (f fakeService) Ready() error { return errors.New("warming up") }

func (f fakeService) Run(ctx context.Context) error {
	defer func() {
		f.j.mu.Lock()
		defer f.j.mu.Unlock()
		f.j.ended = append(f.j.ended, f.name)
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-f.fail:
		return err
	}
}

func TestServicesStopInReverseOrder(t *testing.T) {
	t.Parallel()
	j := &closeJournal{}
	g := NewGroup(slog.New(slog.DiscardHandler), fakeService{name: "a", j: j}, fakeService{name: "b", j: j}, fakeService{name: "c", j: j})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if want := []string{"c", "b", "a"}; !slices.Equal(j.ended, want) {
		t.Errorf("ended %v, want %v", j.ended, want)
	}
}

func TestAFailedServiceEndsTheGroup(t *testing.T) {
	t.Parallel()
	j, fail := &closeJournal{}, make(chan error, 1)
	g := NewGroup(slog.New(slog.DiscardHandler), fakeService{name: "a", j: j}, fakeService{name: "b", j: j, fail: fail})
	fail <- errors.New("disk full")
	if err := g.Run(t.Context()); err == nil || err.Error() != "b: disk full" {
		t.Errorf("got %v", err)
	}
	fail <- nil
	if err := g.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "b: it ended although nothing stopped it") {
		t.Errorf("got %v", err)
	}
}

// statefulService is a ready service with a state.
type statefulService struct{ fakeService }

func (statefulService) Ready() error  { return nil }
func (statefulService) State() string { return "works on 3 of 8 shards" }

func TestReportSaysMoreOfThoseThatDo(t *testing.T) {
	t.Parallel()
	g := NewGroup(slog.New(slog.DiscardHandler), fakeService{name: "a"}, statefulService{fakeService{name: "b"}})
	got, err := g.Report()
	if want := "a: not ready: warming up\nb: ready; works on 3 of 8 shards\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := "a: warming up"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestReadyNamesWhoIsNot(t *testing.T) {
	t.Parallel()
	g := NewGroup(slog.New(slog.DiscardHandler), fakeService{name: "a"}, fakeService{name: "b"})
	if got, want := g.Ready().Error(), "a: warming up\nb: warming up"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// meetingService is ready once another service is asked at the same time.
type meetingService struct {
	fakeService
	meet chan struct{}
}

func (m meetingService) Ready() error {
	select {
	case m.meet <- struct{}{}:
	case <-m.meet:
	case <-time.After(time.Minute):
		return errors.New("nobody else is asked")
	}
	return nil
}

func TestServicesAreAskedAtTheSameTime(t *testing.T) {
	t.Parallel()
	meet := make(chan struct{})
	g := NewGroup(slog.New(slog.DiscardHandler), meetingService{fakeService{name: "a"}, meet}, meetingService{fakeService{name: "b"}, meet})
	if g.WasReady() {
		t.Error("it was ready before anybody looked")
	}
	if err := g.Ready(); err != nil || !g.WasReady() {
		t.Errorf("got %v, was ready: %v", err, g.WasReady())
	}
}

// changingService becomes ready at the second look, and is no longer ready at the third.
type changingService struct {
	fakeService
	looks *atomic.Int32
}

func (c changingService) Ready() error {
	if c.looks.Add(1) == 2 {
		return nil
	}
	return errors.New("warming up")
}

func TestRunLooksAtTheReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(slog.New(slog.DiscardHandler), changingService{fakeService{name: "a", j: &closeJournal{}}, new(atomic.Int32)}).WithLooks(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = g.Run(ctx) }()
		time.Sleep(time.Second / 2)
		for i, want := range []bool{false, false, true, false} {
			if got := g.WasReady(); got != want {
				t.Errorf("after %d looks: %v, want %v", i, got, want)
			}
			time.Sleep(time.Second)
		}
	})
}
