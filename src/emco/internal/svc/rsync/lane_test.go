package rsync

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTargetsOfALaneGoTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got [][]target
		gate := make(chan struct{})
		l := newLanes(func(_ context.Context, _ string, due []target) {
			got = append(got, due)
			<-gate
		})
		a, b, c := target{"a", "1"}, target{"b", "1"}, target{"c", "1"}
		l.add(t.Context(), "git", a)
		synctest.Wait() // a is being worked on
		l.add(t.Context(), "git", c, b, b)
		l.add(t.Context(), "git", a)
		close(gate)
		l.wait()
		want := [][]target{{a}, {a, b, c}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestLanesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var done []string
		l := newLanes(func(_ context.Context, key string, _ []target) {
			if key == "dead" {
				time.Sleep(time.Hour)
			}
			mu.Lock()
			defer mu.Unlock()
			done = append(done, key)
		})
		start := time.Now()
		l.add(t.Context(), "dead", target{"a", "1"})
		l.add(t.Context(), "alive", target{"b", "1"})
		synctest.Wait()
		mu.Lock()
		if !slices.Equal(done, []string{"alive"}) || time.Since(start) != 0 {
			t.Errorf("done %v after %v", done, time.Since(start))
		}
		mu.Unlock()
		l.wait()
	})
}

func TestNothingIsStartedWhenTheTermIsOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := newLanes(func(context.Context, string, []target) { t.Error("worked") })
	l.add(ctx, "git", target{"a", "1"})
	l.wait()
}

func TestAlarmsRingOnceAndCanBeMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		rung := make(chan string, 10)
		a := newAlarms(func(t target) { rung <- fmt.Sprint(t.cluster, " ", time.Since(start)) })
		a.set(target{cluster: "a"}, time.Minute)
		a.set(target{cluster: "a"}, time.Second)
		a.set(target{cluster: "b"}, time.Hour)
		time.Sleep(2 * time.Minute)
		a.stop()
		a.set(target{cluster: "c"}, time.Second)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		close(rung)
		var got []string
		for r := range rung {
			got = append(got, r)
		}
		if !slices.Equal(got, []string{"a 1s"}) {
			t.Errorf("rung %v", got)
		}
	})
}
