package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
)

// fakeSource is what is reported on, in memory.
type fakeSource struct {
	mu        sync.Mutex
	unsettled bool
	reason    string
	changes   chan struct{}
}

func (c *fakeSource) Changes() <-chan struct{} { return c.changes }

func (c *fakeSource) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.unsettled
}

func (c *fakeSource) Report() status.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return status.Report{Apps: []status.App{{Label: "42-web", Objects: []status.Object{{Version: "v1", Kind: "Pod", Name: "p", Status: status.InProgress, Reason: c.reason}}}}}
}

// change changes the cluster; the same reason again is a change without news.
func (c *fakeSource) change(reason string) {
	c.mu.Lock()
	c.reason = reason
	c.mu.Unlock()
	select {
	case c.changes <- struct{}{}:
	default:
	}
}

// recordingWriter writes down what was sent and when.
type recordingWriter struct {
	began time.Time

	mu    sync.Mutex
	err   error
	lines []string
	tried int
}

func (p *recordingWriter) Write(_ context.Context, r status.Report) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried++
	if p.err != nil {
		return p.err
	}
	p.lines = append(p.lines, fmt.Sprintf("%s %s", time.Since(p.began).Round(time.Second), r.Apps[0].Objects[0].Reason))
	return nil
}

// written returns the reports so far.
func (p *recordingWriter) written() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// setError makes further reports fail, unless err is nil. It returns the number of reports
// that were tried before.
func (p *recordingWriter) setError(err error) (tried int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	return p.tried
}

// runLoop runs a loop in a bubble, with a clock of its own.
func runLoop(t *testing.T, c *fakeSource, act func(p *recordingWriter)) (p *recordingWriter, alive int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c.changes = make(chan struct{}, 1)
		p = &recordingWriter{began: time.Now()}
		l := New(c, p, Options{Cluster: "edge+a", Agent: "monitor/test", OnAlive: func() { alive++ }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		act(p)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p, alive
}

func TestReportsAreSentWhenThereIsNews(t *testing.T) {
	t.Parallel()
	c := &fakeSource{reason: "start"}
	p, alive := runLoop(t, c, func(*recordingWriter) {
		time.Sleep(20 * time.Second)
		for i := range 100 { // a storm of changes
			c.change(fmt.Sprint("storm ", i))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(30 * time.Second)
		c.change("storm 99") // no news
		time.Sleep(3 * time.Minute)
	})
	want := []string{"1s start", "21s storm 9", "31s storm 99", "1m31s storm 99", "2m31s storm 99", "3m31s storm 99"}
	if len(p.lines) != len(want) || p.lines[0] != want[0] || !slices.Equal(p.lines[2:], want[2:]) {
		t.Errorf("reports were %q, want about %q", p.lines, want)
	}
	if alive < 240/15 {
		t.Errorf("%d signs of life in four minutes, want one in %s", alive, AliveEvery)
	}
}

// Before all kinds are listed, no report is sent: a missing object may just not be listed.
func TestNoReportBeforeAllIsListed(t *testing.T) {
	t.Parallel()
	c := &fakeSource{reason: "start", unsettled: true}
	p, _ := runLoop(t, c, func(*recordingWriter) {
		time.Sleep(40 * time.Second)
		c.mu.Lock()
		c.unsettled = false
		c.mu.Unlock()
		time.Sleep(5 * time.Second)
	})
	if len(p.lines) != 1 || p.lines[0] != "41s start" && p.lines[0] != "40s start" {
		t.Errorf("reports were %q, want one, when all was known", p.lines)
	}
}

// H-59: while the repository cannot be reached the agent tries less and less often, keeps
// nothing, and sends what is true when it can be reached again.
func TestH59OfflineSendsTheNewestOnly(t *testing.T) {
	t.Parallel()
	c := &fakeSource{reason: "start"}
	p, _ := runLoop(t, c, func(p *recordingWriter) {
		time.Sleep(5 * time.Second)
		p.setError(errors.New("no route"))
		for i := range 8 * 60 {
			c.change(fmt.Sprint("hour ", i/60))
			time.Sleep(time.Minute)
		}
		if tried := p.setError(nil); tried > 8*60/2 {
			t.Errorf("%d tries in eight hours", tried)
		}
		time.Sleep(6 * time.Minute)
	})
	if len(p.lines) < 2 || p.lines[0] != "1s start" {
		t.Fatalf("reports were %q", p.lines)
	}
	for _, line := range p.lines[1:] {
		if line[len(line)-6:] != "hour 7" {
			t.Errorf("after the outage was sent %q, want the newest alone", line)
		}
	}
}

// Each failure is logged once, and again after another one: an operator who has fixed one
// must see the next.
func TestEachFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	synctest.Test(t, func(t *testing.T) {
		p := &recordingWriter{began: time.Now()}
		c := &fakeSource{reason: "start", changes: make(chan struct{}, 1)}
		l := New(c, p, Options{Cluster: "edge+a", Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		for _, why := range []error{errors.New("no trust"), errors.New("no token"), nil, errors.New("no token")} {
			p.setError(why)
			time.Sleep(20 * time.Minute)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	for line, want := range map[string]int{"no trust": 1, "no token": 2, "reports arrive again": 1} {
		if got := strings.Count(log.String(), line); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", line, got, want, log.String())
		}
	}
}

// A report that failed is sent again after a short pause, not with the next heartbeat or
// after the interval between two reports.
func TestAFailedReportIsSentAgainSoon(t *testing.T) {
	t.Parallel()
	c := &fakeSource{reason: "start"}
	p, _ := runLoop(t, c, func(p *recordingWriter) {
		time.Sleep(20 * time.Second)
		p.setError(errors.New("no route"))
		c.change("news")
		time.Sleep(1500 * time.Millisecond) // it was sent after one second, and failed
		if tried := p.setError(nil); tried != 2 {
			t.Errorf("%d reports were sent in the beginning, want two", tried)
		}
		time.Sleep(4 * time.Second)
	})
	if len(p.lines) != 2 || p.lines[1] < "22s" || p.lines[1] > "24s" || !strings.HasSuffix(p.lines[1], " news") {
		t.Errorf("reports were %q, want the second at about 23s", p.lines)
	}
}

func TestAThrottledReportObeysRetryAfter(t *testing.T) {
	t.Parallel()
	c := &fakeSource{reason: "start"}
	p, _ := runLoop(t, c, func(p *recordingWriter) {
		p.setError(errs.Throttle("push", "r", 30*time.Minute, errors.New("slow down")))
		time.Sleep(29 * time.Minute)
		if tried := p.setError(nil); tried != 1 {
			t.Errorf("%d tries, want one", tried)
		}
		time.Sleep(2 * time.Minute)
	})
	if len(p.lines) == 0 {
		t.Error("nothing was sent after the wait")
	}
}

// A report that is refused again and again goes out soon after its credentials were replaced.
func TestNewCredentialsAreTriedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var proof atomic.Value
		proof.Store("old")
		p := &recordingWriter{began: time.Now()}
		c := &fakeSource{reason: "start", changes: make(chan struct{}, 1)}
		l := New(c, p, Options{Cluster: "edge+a", CredentialsID: func() string { return proof.Load().(string) }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		p.setError(errors.New("no such token"))
		time.Sleep(2 * time.Hour)
		proof.Store("new")
		tries := p.setError(errors.New("no such token either"))
		time.Sleep(AliveEvery + time.Second)
		if now := p.setError(nil); now != tries+1 {
			t.Errorf("%d tries with other credentials, want one", now-tries)
		}
		proof.Store("right")
		time.Sleep(AliveEvery + time.Second)
		if got := p.written(); len(got) != 1 {
			t.Errorf("reports were %q, want one", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestSequences(t *testing.T) {
	t.Parallel()
	var s sequence
	now := time.Unix(1_800_000_000, 0)
	if n := s.next(now); n != 1_800_000_000 {
		t.Errorf("the first number is %d, want the clock's", n)
	}
	if n := s.next(now); n != 1_800_000_001 {
		t.Errorf("the next number is %d, want one more", n)
	}
	s.atLeast(1_900_000_000)
	if n := s.next(now); n != 1_900_000_001 {
		t.Errorf("after a restart the number is %d, want one more than in the repository", n)
	}
	s.atLeast(5)
	if n := s.next(time.Unix(-5, 0)); n != 1_900_000_002 {
		t.Errorf("with a clock that went back the number is %d", n)
	}
}
