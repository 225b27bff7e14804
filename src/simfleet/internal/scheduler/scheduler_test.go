package scheduler

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Ten thousand tasks run at their intervals, on a few goroutines.
func TestAllTasksRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const tasks, every = 10_000, time.Minute
		began := time.Now()
		at := make([]time.Time, tasks)
		for i := range at {
			at[i] = began.Add(time.Duration(i) * every / tasks)
		}
		var turns, busy, most atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), 3*every-time.Second)
		defer cancel()
		New(at).Run(ctx, 4, func(_ context.Context, _ int, now time.Time) time.Time {
			turns.Add(1)
			most.Store(max(most.Load(), busy.Add(1)))
			busy.Add(-1)
			return now.Add(every)
		})
		if n := turns.Load(); n < 3*tasks-200 || n > 3*tasks {
			t.Errorf("%d turns in three minutes, want about %d", n, 3*tasks)
		}
		if most.Load() > 4 {
			t.Errorf("%d tasks run at once, want at most 4", most.Load())
		}
	})
}

// A task that is woken runs at the given time, also if it is woken while it runs, and never
// twice at once.
func TestWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := New([]time.Time{began.Add(time.Hour), began.Add(time.Hour)})
		var mu sync.Mutex
		var seen []time.Duration
		inside := false
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			s.Run(ctx, 3, func(_ context.Context, task int, now time.Time) time.Time {
				mu.Lock()
				if inside {
					t.Error("a task runs twice at once")
				}
				inside = true
				seen = append(seen, now.Sub(began))
				mu.Unlock()
				time.Sleep(10 * time.Second) // the work
				mu.Lock()
				inside = false
				mu.Unlock()
				return now.Add(time.Hour)
			})
		})
		time.Sleep(time.Minute)
		s.Wake(1, time.Now())
		time.Sleep(5 * time.Second)
		s.Wake(1, time.Now().Add(20*time.Second)) // while it runs
		time.Sleep(time.Minute)
		cancel()
		run.Wait()
		want := []time.Duration{time.Minute, 85 * time.Second}
		if len(seen) != 2 || seen[0] != want[0] || seen[1] != want[1] {
			t.Errorf("turns were at %v, want %v", seen, want)
		}
	})
}
