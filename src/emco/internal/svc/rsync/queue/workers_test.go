package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

func TestTargetsOfAKeyGoTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got [][]pair.Target
		gate := make(chan struct{})
		l := NewWorkers(func(_ context.Context, _ string, due []pair.Target) {
			got = append(got, due)
			<-gate
		})
		a, b, c := pair.Target{Cluster: "a", Deployment: "1"}, pair.Target{Cluster: "b", Deployment: "1"}, pair.Target{Cluster: "c", Deployment: "1"}
		l.Add(t.Context(), "git", a)
		synctest.Wait() // a is being worked on
		l.Add(t.Context(), "git", c, b, b)
		l.Add(t.Context(), "git", a)
		close(gate)
		l.Wait()
		want := [][]pair.Target{{a}, {a, b, c}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var done []string
		l := NewWorkers(func(_ context.Context, key string, _ []pair.Target) {
			if key == "dead" {
				time.Sleep(time.Hour)
			}
			mu.Lock()
			defer mu.Unlock()
			done = append(done, key)
		})
		start := time.Now()
		l.Add(t.Context(), "dead", pair.Target{Cluster: "a", Deployment: "1"})
		l.Add(t.Context(), "alive", pair.Target{Cluster: "b", Deployment: "1"})
		synctest.Wait()
		mu.Lock()
		if !slices.Equal(done, []string{"alive"}) || time.Since(start) != 0 {
			t.Errorf("done %v after %v", done, time.Since(start))
		}
		mu.Unlock()
		l.Wait()
	})
}

func TestNoWorkStartsAfterTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := NewWorkers(func(context.Context, string, []pair.Target) { t.Error("worked") })
	l.Add(ctx, "git", pair.Target{Cluster: "a", Deployment: "1"})
	l.Wait()
}

func TestTimersFireOnceAndCanBeMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		fired := make(chan string, 10)
		a := NewTimers(func(t pair.Target) { fired <- fmt.Sprint(t.Cluster, " ", time.Since(start)) })
		a.Set(pair.Target{Cluster: "a"}, time.Minute)
		a.Set(pair.Target{Cluster: "a"}, time.Second)
		a.Set(pair.Target{Cluster: "b"}, time.Hour)
		time.Sleep(2 * time.Minute)
		a.Stop()
		a.Set(pair.Target{Cluster: "c"}, time.Second)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		close(fired)
		var got []string
		for r := range fired {
			got = append(got, r)
		}
		if !slices.Equal(got, []string{"a 1s"}) {
			t.Errorf("fired %v", got)
		}
	})
}
