package shards

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// publishInterval is how often the processes of these tests publish the time.
const publishInterval = 20 * time.Millisecond

// compareClocks runs the comparison of a process whose clock is ahead, until the test or stop ends it.
func compareClocks(t *testing.T, prefix, name string, ahead time.Duration) (c *Clocks, stop func()) {
	t.Helper()
	c = NewClocks(etcdkv.New(etcd, prefix, etcdkv.Options{}), Member{Holder: name, TTL: publishInterval})
	c.now = func() time.Time { return time.Now().Add(ahead) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		must(t, <-ended)
	})
	t.Cleanup(stop)
	return c, stop
}

// A message takes some time, in which a clock that is behind seems to be a little more behind: State has the same minutes however long that is.
func TestProcessesCompareTheirClocks(t *testing.T) {
	prefix := etcdtest.Prefix(t)
	one, _ := compareClocks(t, prefix, "one", 0)
	two, _ := compareClocks(t, prefix, "two", 0)
	behind, stop := compareClocks(t, prefix, "behind", -10*time.Minute)
	near := func(got, want time.Duration) bool { return (got - want).Abs() < time.Minute }
	eventually(t, "each process knows the difference", func() bool {
		return near(one.Skew(), -10*time.Minute) && near(two.Skew(), -10*time.Minute) && near(behind.Skew(), 10*time.Minute)
	})
	eventually(t, "the state counts the others", func() bool { return strings.HasPrefix(one.State(), "2 other processes, at most 10m") })
	stop()
	eventually(t, "a process that has ended is forgotten", func() bool { return near(one.Skew(), 0) && near(two.Skew(), 0) })
}

// A message that was held up makes a clock look late. One alone does not count.
func TestADifferenceIsSeenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := NewClocks(etcdkv.New(nil, "/", etcdkv.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}), Member{Holder: "one", TTL: 10 * time.Second})
		observe := func(pause, ahead time.Duration) {
			time.Sleep(pause)
			c.observe("two", time.Now().Add(ahead))
		}
		wants := func(what string, ahead time.Duration, lines int) {
			t.Helper()
			if got := c.Skew(); got != ahead {
				t.Errorf("%s: the difference is %s, want %s", what, got, ahead)
			}
			if got := strings.Count(log.String(), "\n"); got != lines {
				t.Errorf("%s: %d lines are logged, want %d:\n%s", what, got, lines, log.String())
			}
		}
		observe(0, -time.Hour)
		wants("seen once", 0, 0)
		observe(time.Second, -time.Hour)
		wants("seen again at once", 0, 0)
		observe(10*time.Second, time.Millisecond)
		wants("the clocks agree", 0, 0)
		observe(10*time.Second, -time.Hour)
		wants("one message was held up", 0, 0)
		observe(10*time.Second, -time.Minute)
		wants("seen twice", -time.Minute, 1)
		observe(10*time.Second, -time.Minute)
		wants("it lasts", -time.Minute, 1)
		observe(10*time.Second, 3*time.Millisecond)
		observe(10*time.Second, 2*time.Millisecond)
		wants("the clock was set", 2*time.Millisecond, 2)
		c.forget("two")
		wants("the process has ended", 0, 2)
	})
}
