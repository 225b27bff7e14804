package throttle_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/access/throttle"
)

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestACallerWaitsAfterItsBurst(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	l := throttle.New(10, 3, c.now)
	for i := range 3 {
		if wait := l.Take("ann"); wait != 0 {
			t.Fatalf("act %d waits %s", i, wait)
		}
	}
	for range 5 { // what is refused does not count
		if wait := l.Take("ann"); wait != 100*time.Millisecond {
			t.Fatalf("after the burst: %s", wait)
		}
	}
	if wait := l.Take("bob"); wait != 0 {
		t.Errorf("another caller waits %s", wait)
	}
	c.at = c.at.Add(100 * time.Millisecond)
	if first, second := l.Take("ann"), l.Take("ann"); first != 0 || second == 0 {
		t.Errorf("a moment later: %s, %s", first, second)
	}
	var none *throttle.Limiter
	if none.Take("ann") != 0 {
		t.Error("no limiter refuses")
	}
}

// Callers without number share what is left; those who are counted keep their own, and idle ones make room.
func TestTheMemoryIsBounded(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	l := throttle.New(1, 1, c.now)
	refused := 0
	for i := range 20_000 {
		if l.Take(strconv.Itoa(i)) > 0 {
			refused++
		}
	}
	if refused != 20_000-10_000-1 {
		t.Errorf("%d refused", refused)
	}
	c.at = c.at.Add(time.Minute)
	if wait := l.Take("new"); wait != 0 {
		t.Errorf("after a minute a new caller waits %s", wait)
	}
	if first, second := l.Take("newer"), l.Take("newer"); first != 0 || second == 0 {
		t.Errorf("it is not counted by itself: %s, %s", first, second)
	}
}
