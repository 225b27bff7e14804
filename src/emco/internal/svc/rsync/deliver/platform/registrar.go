// Package platform calls the API of a cluster's platform after a commit, such as Azure Arc's, so that the reconciler there
// reads the files of a target (see syncer.Bootstrapper).
package platform

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// validity is how long the outcome of a call counts as unchanged: others may change it on the
// platform. The first delivery after that calls again.
const validity = time.Hour

// Options are what a registrar works with.
type Options struct {
	Permits       chan struct{} // bounds the clusters whose platforms are called at the same time
	Cancellations *queue.Cancellations
	Address       func(pair.Target, route.Route) syncer.Target
	Open          func(pair.Target) bool // the target still has something to deliver
	Record        func(context.Context, []pair.Result)
}

// Registrar calls platforms after the commit and before the results are recorded, so pairs
// count as delivered when both are done. After a crash both are done again, which changes
// nothing. The targets of one cluster are registered one after the other; clusters do not
// wait for each other.
type Registrar struct {
	Options
	workers *queue.Workers             // by cluster; own the goroutines that call
	timers  *queue.Timers[pair.Target] // of releases that wait for their delay

	mu    sync.Mutex
	calls map[pair.Target]call     // that are due or delayed; guarded by mu
	made  map[pair.Target]madeCall // the last one that succeeded; guarded by mu
}

// call is one call of a platform, and the results that come true with it.
type call struct {
	at       syncer.Target
	platform syncer.Bootstrapper
	apps     []string // none: the target is released
	digest   digest
	after    time.Time // not before
	results  []pair.Result
}

// madeCall is a call for a target that succeeded.
type madeCall struct {
	digest digest
	at     time.Time
}

// digest covers everything that a call sends, credentials included.
type digest [sha256.Size]byte

// NewRegistrar returns a registrar whose work ends with ctx, or by Stop.
func NewRegistrar(ctx context.Context, o Options) *Registrar {
	r := &Registrar{Options: o, calls: map[pair.Target]call{}, made: map[pair.Target]madeCall{}}
	r.workers = queue.NewWorkers(r.work)
	r.timers = queue.NewTimers(func(t pair.Target) { r.workers.Add(ctx, string(t.Cluster), t) })
	return r
}

// Register takes the results of a commit. It keeps those of targets whose platform must be
// called, and records them when that is done. It returns the others.
func (r *Registrar) Register(ctx context.Context, done []pair.Result, routes map[pair.Target]route.Route) (others []pair.Result) {
	platformOf := func(result pair.Result) syncer.Bootstrapper {
		if result.Err != nil {
			return nil
		}
		return syncer.Bootstrapping(routes[pair.TargetOf(result.Key)].Backend)
	}
	if !slices.ContainsFunc(done, func(result pair.Result) bool { return platformOf(result) != nil }) {
		return done // as for most fleets
	}
	calls := map[pair.Target]call{}
	for _, result := range done {
		t := pair.TargetOf(result.Key)
		platform := platformOf(result)
		if platform == nil {
			others = append(others, result)
			continue
		}
		c, begun := calls[t]
		if !begun {
			c = r.newCall(t, platform, routes[t], result.Apps)
		}
		if r.dropIfMade(t, c) {
			others = append(others, result)
			continue
		}
		c.results = append(c.results, result)
		calls[t] = c
	}
	for t, c := range calls {
		r.enqueue(ctx, t, c)
	}
	return others
}

// newCall returns the call for a target with the given apps.
func (r *Registrar) newCall(t pair.Target, platform syncer.Bootstrapper, to route.Route, apps []string) call {
	c := call{at: r.Address(t, to), platform: platform, apps: apps}
	c.digest = sha256.Sum256(fmt.Append(nil, to.Settings.Kind, to.Settings.Options, c.at, apps)) // fmt writes maps in order of their keys
	if len(apps) == 0 {
		c.after = time.Now().Add(to.Settings.Delay)
	}
	return c
}

// dropIfMade reports whether the last call was the same and recent. If so, it drops a different
// call of the target that is still pending.
func (r *Registrar) dropIfMade(t pair.Target, c call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.made[t]
	if !ok || last.digest != c.digest || time.Since(last.at) >= validity {
		return false
	}
	delete(r.calls, t)
	return true
}

// enqueue makes a call when it is due. It replaces a pending call of the target; the delay
// of a release counts from the first one.
func (r *Registrar) enqueue(ctx context.Context, t pair.Target, c call) {
	r.mu.Lock()
	if pending, ok := r.calls[t]; ok && len(pending.apps)+len(c.apps) == 0 {
		c.after = pending.after
	}
	r.calls[t] = c
	r.mu.Unlock()
	if d := time.Until(c.after); d > 0 {
		r.timers.Set(t, d)
		return
	}
	r.workers.Add(ctx, string(t.Cluster), t)
}

// work makes the calls of a cluster.
func (r *Registrar) work(ctx context.Context, _ string, due []pair.Target) {
	select {
	case r.Permits <- struct{}{}:
		defer func() { <-r.Permits }()
	case <-ctx.Done():
		return
	}
	for _, t := range due {
		r.call(t)
	}
}

// call makes a target's call if it is due, unless the deployment was stopped meanwhile.
func (r *Registrar) call(t pair.Target) {
	ctx := r.Cancellations.For(t.Deployment) // before Open: a stop after Open must end this context
	c, due := r.take(t)
	if !due || !r.Open(t) {
		return
	}
	var err error
	if len(c.apps) == 0 {
		err = c.platform.Release(ctx, c.at)
	} else {
		err = c.platform.Bootstrap(ctx, c.at, c.apps)
	}
	r.note(t, c, err)
	for i := range c.results {
		c.results[i].Err = err
	}
	r.Record(ctx, c.results)
}

// take removes and returns a target's call if it is due.
func (r *Registrar) take(t pair.Target) (c call, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, due = r.calls[t]
	if due && time.Now().Before(c.after) {
		return c, false
	}
	delete(r.calls, t)
	return c, due
}

func (r *Registrar) note(t pair.Target, c call, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || len(c.apps) == 0 {
		delete(r.made, t)
		return
	}
	r.made[t] = madeCall{c.digest, time.Now()}
}

// Forget forgets a target that was stopped or is gone, and cancels its pending call.
func (r *Registrar) Forget(t pair.Target) {
	r.timers.Cancel(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.calls, t)
	delete(r.made, t)
}

// Stop waits for calls to end; the context must have ended, and Register must not be
// called again.
func (r *Registrar) Stop() {
	r.timers.Stop()
	r.workers.Wait()
}
