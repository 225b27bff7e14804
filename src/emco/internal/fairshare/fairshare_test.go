package fairshare_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
)

// journal records the order of work.
type journal struct {
	mu    sync.Mutex
	begun []string
}

func (j *journal) add(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun = append(j.begun, name)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.begun, " ")
}

// do starts work that holds a slot for a time, once the test's goroutines are idle.
func (j *journal) do(t *testing.T, s *fairshare.Shares, tenant string, rank fairshare.Rank, d time.Duration) {
	t.Helper()
	go func() {
		release, err := s.Acquire(t.Context(), tenant, rank)
		if err != nil {
			return
		}
		defer release()
		j.add(tenant)
		time.Sleep(d)
	}()
	synctest.Wait()
}

func TestF27ATenantWithMuchWorkDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, j := fairshare.New(fairshare.Options{Permits: 1}), &journal{}
		for range 5 {
			j.do(t, s, "a", fairshare.Fresh, 10*time.Second)
		}
		for range 3 {
			j.do(t, s, "b", fairshare.Fresh, time.Second)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		// b is served after the work that runs already, until it has used as much as a.
		if got := j.String(); got != "a b b b a a a a" {
			t.Errorf("work began in the order %s", got)
		}
	})
}

func TestF27ANewTenantFindsTheSpareSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, j := fairshare.New(fairshare.Options{Permits: 2, Spare: 1}), &journal{}
		for range 9 {
			j.do(t, s, "a", fairshare.Fresh, time.Minute)
		}
		j.do(t, s, "b", fairshare.Fresh, time.Second)
		j.do(t, s, "b", fairshare.Fresh, time.Second)
		if got := j.String(); got != "a a b" {
			t.Fatalf("while permits are in use, these began: %s", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := j.String(); got != "a a b b" {
			t.Errorf("when b's first work was done, these had begun: %s", got)
		}
		time.Sleep(time.Hour)
	})
}

func TestF27WhatRanOutOfTimeWaitsBehindWhatNeverRan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fairshare.New(fairshare.Options{Permits: 2, NotFresh: 1})
		var order journal
		run := func(name string, rank fairshare.Rank) {
			go func() {
				release, err := s.Acquire(t.Context(), "a", rank)
				if err != nil {
					t.Error(err)
					return
				}
				defer release()
				order.add(name)
				time.Sleep(time.Second)
			}()
			synctest.Wait()
		}
		run("first", fairshare.Spent)
		run("second", fairshare.Spent) // waits, though a slot is free
		run("fresh", fairshare.Fresh)
		run("slow", fairshare.Slow)
		run("fresh too", fairshare.Fresh)
		if n := s.Waiting("a"); n != 3 {
			t.Errorf("%d wait", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := order.String(); got != "first fresh fresh too slow second" {
			t.Errorf("work began in the order %s", got)
		}
	})
}

func TestWeightsDivideTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		weights := map[string]int{"a": 1, "b": 3}
		s, j := fairshare.New(fairshare.Options{Permits: 1, Weight: func(n string) int { return weights[n] }}), &journal{}
		for range 40 {
			j.do(t, s, "a", fairshare.Fresh, time.Second)
			j.do(t, s, "b", fairshare.Fresh, time.Second)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if a, b := strings.Count(j.String(), "a"), strings.Count(j.String(), "b"); a < 9 || a > 12 || b < 28 {
			t.Errorf("a began %d times, b %d times", a, b)
		}
		time.Sleep(time.Hour)
	})
}

func TestATenantHasAtMostItsSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, j := fairshare.New(fairshare.Options{Permits: 4, PerTenant: 2}), &journal{}
		for range 4 {
			j.do(t, s, "a", fairshare.Fresh, time.Minute)
		}
		j.do(t, s, "b", fairshare.Fresh, time.Minute)
		if got := j.String(); got != "a a b" {
			t.Errorf("these began: %s", got)
		}
		time.Sleep(time.Hour)
	})
}

func TestWhoLeavesHoldsNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fairshare.New(fairshare.Options{Permits: 1})
		release, err := s.Acquire(t.Context(), "a", fairshare.Fresh)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Acquire(ctx, "b", fairshare.Fresh); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v", err)
		}
		release()
		for i := range 3 {
			if release, err = s.Acquire(t.Context(), fmt.Sprint(i), fairshare.Spent); err != nil {
				t.Fatal(err)
			}
			release()
		}
	})
}

func TestTurns(t *testing.T) {
	t.Parallel()
	weights, err := fairshare.Weights([]string{"b=2"})
	if err != nil {
		t.Fatal(err)
	}
	tenant := func(item string) string { return item[:1] }
	for _, tt := range []struct{ items, want string }{
		{"a1 a2 a3 a4 b1 b2 b3 c1", "a1 b1 b2 c1 a2 b3 a3 a4"},
		{"a1 a2", "a1 a2"},
		{"", ""},
	} {
		if got := strings.Join(fairshare.Turns(strings.Fields(tt.items), tenant, weights), " "); got != tt.want {
			t.Errorf("Turns(%s) = %s, want %s", tt.items, got, tt.want)
		}
	}
	for _, bad := range []string{"b", "b=", "b=0", "=2", "b=1000"} {
		if _, err := fairshare.Weights([]string{bad}); err == nil {
			t.Errorf("weight %q is taken", bad)
		}
	}
}
