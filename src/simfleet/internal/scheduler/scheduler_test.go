package scheduler

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Ten thousand parties with an interval each have all their turns, on a few goroutines.
func TestAllHaveTheirTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const parties, every = 10_000, time.Minute
		began := time.Now()
		at := make([]time.Time, parties)
		for i := range at {
			at[i] = began.Add(time.Duration(i) * every / parties)
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
		if n := turns.Load(); n < 3*parties-200 || n > 3*parties {
			t.Errorf("%d turns in three minutes, want about %d", n, 3*parties)
		}
		if most.Load() > 4 {
			t.Errorf("%d turns at once, want at most 4", most.Load())
		}
	})
}

// Who is woken comes at once, also if it has its turn at that moment, and never twice at once.
func TestWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a := New([]time.Time{began.Add(time.Hour), began.Add(time.Hour)})
		var mu sync.Mutex
		var seen []time.Duration
		inside := false
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			a.Run(ctx, 3, func(_ context.Context, party int, now time.Time) time.Time {
				mu.Lock()
				if inside {
					t.Error("a party has two turns at once")
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
		a.Wake(1, time.Now())
		time.Sleep(5 * time.Second)
		a.Wake(1, time.Now().Add(20*time.Second)) // during its turn
		time.Sleep(time.Minute)
		cancel()
		run.Wait()
		want := []time.Duration{time.Minute, 85 * time.Second}
		if len(seen) != 2 || seen[0] != want[0] || seen[1] != want[1] {
			t.Errorf("turns were at %v, want %v", seen, want)
		}
	})
}
