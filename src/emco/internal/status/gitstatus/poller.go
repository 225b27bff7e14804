package gitstatus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	leastGap    = time.Second     // between two looks, however often webhooks call
	longestWait = 5 * time.Minute // after failures
	maxStranger = 1000            // branches of no cluster that are remembered
)

// poller looks at one place. All but what mu guards belongs to the goroutine of run.
type poller struct {
	s     *Source
	at    place
	stop  context.CancelFunc
	woken chan struct{}

	seen      map[string]git.Hash // by branch: what was dealt with
	files     map[string]git.Hash // by path: likewise, in EMCO's path
	docs      map[string][]byte   // by path: the last content, in EMCO's path
	strangers map[string]bool
	records   map[string]*record // by cluster
	teller    *intake.Notifier
	failures  int

	mu       sync.Mutex
	clusters map[string]Cluster
}

func newPoller(s *Source, at place, deliver func(context.Context, appcontext.Report), stop context.CancelFunc) *poller {
	p := &poller{
		s: s, at: at, stop: stop, woken: make(chan struct{}, 1),
		seen: map[string]git.Hash{}, files: map[string]git.Hash{}, docs: map[string][]byte{}, strangers: map[string]bool{}, records: map[string]*record{},
	}
	p.teller = &intake.Notifier{Refresh: s.options.Refresh, Pairs: s.fleet.Pairs, Commits: s.git, Desired: p.desired, Deliver: deliver, Log: s.options.Log}
	return p
}

// desired is where what a cluster is to hold is written.
func (p *poller) desired(_ context.Context, cluster string) (git.Repo, error) {
	return p.present()[cluster].Desired, nil
}

// set says which clusters report to the place.
func (p *poller) set(clusters map[string]Cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clusters = clusters
}

func (p *poller) present() map[string]Cluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clusters
}

// wake makes the next look happen soon.
func (p *poller) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// run looks, waits, and looks again, until ctx ends.
func (p *poller) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.safely(ctx)
		if ctx.Err() != nil {
			return
		}
		p.settle(err)
		p.rest(ctx, p.pause(err))
	}
}

// safely looks once. A panic, which only a bug or a document that nobody thought of can
// cause, ends this look and no other.
func (p *poller) safely(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.s.options.Log.Error("a look at reports ended in a panic", "repo", p.at.repo.URL, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = errs.New(errs.Internal, "panic")
		}
	}()
	if p.at.mode == gitops.StatusPath {
		return p.lookAtPaths(ctx)
	}
	return p.lookAtBranches(ctx)
}

// settle logs when the place cannot be read, and when it can again.
func (p *poller) settle(err error) {
	switch {
	case err != nil && p.failures == 0:
		p.s.options.Log.Warn("reports cannot be read", "repo", p.at.repo.URL, "err", err)
	case err == nil && p.failures > 0:
		p.s.options.Log.Info("reports can be read again", "repo", p.at.repo.URL, "failures", p.failures)
	}
	p.failures++
	if err == nil {
		p.failures = 0
	}
}

// pause is how long to wait for the next look, with jitter: after failures longer, and
// at least as long as the server asks for.
func (p *poller) pause(err error) time.Duration {
	wait := p.s.options.Interval
	for range min(p.failures, 10) {
		wait = min(2*wait, max(longestWait, p.s.options.Interval))
	}
	wait = max(wait, errs.RetryAfter(err))
	return wait + rand.N(wait/10+1)
}

// rest waits. A webhook ends it, but for a moment that bounds how often it may.
func (p *poller) rest(ctx context.Context, wait time.Duration) {
	gap := min(wait, leastGap)
	t := time.NewTimer(gap)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-t.C:
	}
	t.Reset(wait - gap)
	select {
	case <-ctx.Done():
	case <-p.woken:
	case <-t.C:
	}
}
