package gitstatus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	minInterval        = time.Second     // between two polls, however often webhooks call
	maxBackoff         = 5 * time.Minute // after failures
	maxUnknownBranches = 1000            // unknown branches that are counted once
)

// poller reads one location. Only the goroutine of run uses the fields above mu.
type poller struct {
	source   *Source
	location reportLocation
	stop     context.CancelFunc
	wakeUp   chan struct{}

	seen            map[string]git.Hash // by branch: the last processed commit
	files           map[string]git.Hash // by path: the last processed blob of upstream's path
	docs            map[string][]byte   // by path: the content of that blob
	unknownBranches map[string]bool
	clusterStates   map[v2.ClusterKey]*clusterRecord // by cluster
	failures        int

	mu       sync.Mutex
	clusters map[v2.ClusterKey]Cluster // guarded by mu
}

func newPoller(s *Source, at reportLocation, stop context.CancelFunc) *poller {
	return &poller{
		source: s, location: at, stop: stop, wakeUp: make(chan struct{}, 1),
		seen: map[string]git.Hash{}, files: map[string]git.Hash{}, docs: map[string][]byte{}, unknownBranches: map[string]bool{}, clusterStates: map[v2.ClusterKey]*clusterRecord{},
	}
}

// setClusters replaces the clusters of the location.
func (p *poller) setClusters(clusters map[v2.ClusterKey]Cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clusters = clusters
}

func (p *poller) currentClusters() map[v2.ClusterKey]Cluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clusters
}

// wake makes the next poll start soon.
func (p *poller) wake() {
	select {
	case p.wakeUp <- struct{}{}:
	default:
	}
}

// run polls until ctx ends.
func (p *poller) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		p.logResult(err)
		p.wait(ctx, p.nextInterval(err))
	}
}

// poll reads the location once. A panic ends this poll only: a hostile document must not stop
// the others.
func (p *poller) poll(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.source.options.Log.Error("poll of reports panicked", "repo", p.location.repo.URL, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = errs.New(errs.Internal, "panic")
		}
	}()
	if p.location.mode == syncobjects.StatusPath {
		return p.readPaths(ctx)
	}
	return p.readBranches(ctx)
}

// logResult logs the first failure, and the first success after failures.
func (p *poller) logResult(err error) {
	switch {
	case err != nil && p.failures == 0:
		p.source.options.Log.Warn("reports not readable", "repo", p.location.repo.URL, "err", err)
	case err == nil && p.failures > 0:
		p.source.options.Log.Info("reports readable again", "repo", p.location.repo.URL, "failures", p.failures)
	}
	p.failures++
	if err == nil {
		p.failures = 0
	}
}

// nextInterval returns the time to the next poll, with jitter. It grows with failures, and is at
// least what the server asked for.
func (p *poller) nextInterval(err error) time.Duration {
	wait := p.source.options.Interval
	for range min(p.failures, 10) {
		wait = min(2*wait, max(maxBackoff, p.source.options.Interval))
	}
	wait = max(wait, errs.RetryAfter(err))
	return wait + rand.N(wait/10+1)
}

// wait waits for the next poll. A webhook ends it after minInterval.
func (p *poller) wait(ctx context.Context, wait time.Duration) {
	gap := min(wait, minInterval)
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
	case <-p.wakeUp:
	case <-t.C:
	}
}
