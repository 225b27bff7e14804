// Package failpoint lets tests break a named step of the program on purpose: make it
// fail, take long, or kill the process there. A Set is handed in by whoever puts the
// program together; where none is, no step is looked at and nothing costs anything.
package failpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrInjected is what a step fails with when a rule says so. Whoever put the failpoint
// there wraps it into what the real thing would say.
var ErrInjected = errors.New("broken on purpose by a failpoint")

// Set is the points of a program and the rules that hold at them now. It is safe for
// use by many goroutines. A nil Set has no rules.
type Set struct {
	points []string
	kill   func()

	mu      sync.Mutex
	rules   []*rule
	reached map[string]int
}

// New returns a set without rules. points are all that there are, so that a rule for a
// point that is spelled wrong is refused.
func New(points ...string) *Set {
	return &Set{points: slices.Sorted(slices.Values(points)), kill: killSelf, reached: map[string]int{}}
}

// killSelf ends the process as kill -9 does: nothing is closed, flushed or answered.
func killSelf() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // until the kernel gets to it
}

// Arm replaces all rules by those of a text, and forgets what was counted; "" means
// none. See Parse for the text.
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

// At is called at a point. It returns ErrInjected if the step is to fail; a step that is
// to take long takes long here, at most until ctx ends; one that is to be the last of the
// process does not return.
func (s *Set) At(ctx context.Context, point string) error {
	if s == nil {
		return nil
	}
	r := s.hit(point)
	if r == nil {
		return nil
	}
	if r.action == actionDelay {
		wait(ctx, r.delay)
		return nil
	}
	return fmt.Errorf("%w at %s", ErrInjected, point)
}

// hit counts and returns the first rule that applies. A death comes before anybody else can
// look or arm: who was answered that the rules are gone is not left with a process that dies of
// one a moment later.
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

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Counts is what happened since the last Arm.
type Counts struct {
	Points  []string       `json:"points"`  // all that there are, in order
	Reached map[string]int `json:"reached"` // how often the program came by each
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
