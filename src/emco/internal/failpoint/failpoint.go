// Package failpoint lets tests break a named step of the program on purpose: the step
// fails, takes long, or kills or stops the process. The composition root passes a Set in; without
// one, steps cost nothing.
package failpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrInjected is the error of a step that a rule makes fail. The wrapper of the step turns
// it into the error of the real part.
var ErrInjected = errors.New("broken on purpose by a failpoint")

// Set is the points of a program and their current rules. It is safe for use by many
// goroutines. A nil Set has no rules.
type Set struct {
	points []string
	kill   func()
	stop   func()

	mu      sync.Mutex
	rules   []*rule        // guarded by mu
	reached map[string]int // by point; guarded by mu
}

// New returns a set without rules. points is all points, so that a rule with a misspelled
// point is refused.
func New(points ...string) *Set {
	return &Set{points: slices.Sorted(slices.Values(points)), kill: killSelf, stop: stopSelf, reached: map[string]int{}}
}

// killSelf ends the process as kill -9 does: nothing is closed, flushed or answered.
func killSelf() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // until the signal arrives
}

// stopSelf stops the process until another one continues it.
func stopSelf() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(os.Getpid(), syscall.SIGSTOP) == nil {
		<-continued // threads may run for a moment before they stop
	}
}

// Arm replaces all rules by those of a text, and resets the counts; "" means no rules.
// See parse for the text.
func (s *Set) Arm(text string) error {
	rules, err := parse(text)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if !slices.ContainsFunc(s.points, r.covers) {
			return fmt.Errorf("no failpoint is called %q; there are %s", r.point, strings.Join(s.points, ", "))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = rules
	clear(s.reached)
	return nil
}

// At is called at a point. It returns ErrInjected if the step must fail. A delay passes
// within At, at most until ctx ends. If the process must die, At does not return. If the step must panic, At does. If the process
// must stop, At returns when another process continues it.
func (s *Set) At(ctx context.Context, point string) error {
	_, err := s.Send(ctx, point)
	return err
}

// Send is At for a step that sends a request. It returns the context of the request: if the process was stopped at the point, one
// without an end, as if the request was on its way and arrives, however late.
func (s *Set) Send(ctx context.Context, point string) (context.Context, error) {
	if s == nil {
		return ctx, nil
	}
	r := s.hit(point)
	if r == nil {
		return ctx, nil
	}
	switch r.action {
	case actionPanic:
		panic(fmt.Sprintf("%v at %s", ErrInjected, point))
	case actionDelay:
		select {
		case <-ctx.Done():
		case <-time.After(r.delay):
		}
		return ctx, nil
	case actionStop:
		s.stop()
		return context.WithoutCancel(ctx), nil
	}
	return ctx, fmt.Errorf("%w at %s", ErrInjected, point)
}

// hit counts and returns the first rule that applies. It kills the process while mu is held:
// a caller that has replaced the rules must not meet a process that dies of an old one.
func (s *Set) hit(point string) *rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reached[point]++
	for _, r := range s.rules {
		if !r.covers(point) || !r.fires() {
			continue
		}
		if r.action == actionKill {
			s.kill()
		}
		return r
	}
	return nil
}

// Counts is what happened since the last Arm.
type Counts struct {
	Points  []string       `json:"points"`  // all points, in order
	Reached map[string]int `json:"reached"` // how often the program reached each
	Fired   int            `json:"fired"`   // how often a rule applied
}

// Counts returns what happened since the last Arm.
func (s *Set) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Counts{Points: slices.Clone(s.points), Reached: map[string]int{}}
	for point, n := range s.reached {
		out.Reached[point] = n
	}
	for _, r := range s.rules {
		out.Fired += r.fired
	}
	return out
}
