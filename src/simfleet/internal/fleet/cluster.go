package fleet

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/publish"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/fetch"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/inventory"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/script"
)

// cluster is one simulated cluster: a reconciler that follows a folder, an inventory, and
// the monitor's loop of reports. It does everything in its turns.
type cluster struct {
	fleet    *Fleet
	location fetch.Location
	random   *rand.Rand    // only during turns
	loop     *publish.Loop // only during turns; nil if the cluster does not report

	stateAfterTurn atomic.Int32 // a clusterState; Summary reads it without waiting for a turn

	ordersMu sync.Mutex
	orders   []script.Order // not taken yet; guarded by ordersMu

	// mu is held during a turn, which may take as long as a push. It guards all below.
	mu            sync.Mutex
	offline       bool
	lag           time.Duration
	failing       []string // patterns
	drifted       []string // patterns; until the next poll
	nextPoll      time.Time
	polled        bool           // at least once
	fetchErr      error          // of the last poll
	fetched       fetch.Snapshot // by the last poll that succeeded
	applyAt       time.Time      // when to apply it; zero if it is applied
	appliedFolder inventory.Digest
	state         *inventory.State
	commit        string                 // that Flux applied last
	settling      map[status.Object]bool // workloads that are in progress, as the state has them
	readyAt       time.Time              // until when they are; zero if there are none
	reported      int
}

// offlinePause is the time between two turns of a cluster that is offline.
const offlinePause = time.Hour

// turn does what is due.
func (c *cluster) turn(ctx context.Context, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.storeState()
	c.takeOrders(now)
	if c.offline {
		return now.Add(offlinePause)
	}
	if !now.Before(c.nextPoll) {
		c.poll(ctx, now)
	}
	if !c.applyAt.IsZero() && !now.Before(c.applyAt) {
		c.apply(now)
	}
	if !c.readyAt.IsZero() && !now.Before(c.readyAt) {
		c.readyAt, c.settling = time.Time{}, nil
		c.changed(now)
	}
	if c.reports() && c.loop.Due(now) <= 0 {
		c.loop.Send(ctx)
	}
	return c.next(time.Now())
}

func (c *cluster) reports() bool { return c.loop != nil && c.polled }

// next returns when the next turn is due.
func (c *cluster) next(now time.Time) time.Time {
	at := c.nextPoll
	for _, t := range []time.Time{c.applyAt, c.readyAt} {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	if c.reports() {
		if t := now.Add(c.loop.Due(now)); t.Before(at) {
			at = t
		}
	}
	return at
}

// poll does what a reconciler does once per interval: it repairs drift, and fetches.
func (c *cluster) poll(ctx context.Context, now time.Time) {
	c.nextPoll = now.Add(jitter(c.random, c.fleet.options.Interval))
	if len(c.drifted) > 0 {
		c.drifted = nil
		c.changed(now)
	}
	found, err := c.fleet.fetcher.Fetch(ctx, c.location, c.fetched)
	if errs.Is(err, errs.NotFound) {
		err = nil // nothing was written for the cluster yet
	}
	if c.fetchErr = err; err != nil {
		return
	}
	c.polled = true
	if found.Commit == c.fetched.Commit {
		return
	}
	if c.fetched = found; c.appliedFolder == found.Folder.Digest && c.state != nil {
		c.noteCommit(now)
		return
	}
	c.applyAt = now.Add(c.lag)
	if most := c.fleet.options.Apply; most > 0 {
		c.applyAt = c.applyAt.Add(time.Duration(c.random.Int64N(int64(most))))
	}
}

// noteCommit records a commit that does not change the folder. Flux reports its commit, so
// the cluster has to report it.
func (c *cluster) noteCommit(now time.Time) {
	if c.applyAt = (time.Time{}); c.state.Flux {
		c.commit = string(c.fetched.Commit)
		c.changed(now)
	}
}

func (c *cluster) apply(now time.Time) {
	c.applyAt = time.Time{}
	state, ok := c.fleet.objects.Apply(c.fetched.Root, c.fetched.Folder)
	if !ok { // the cache has dropped the files
		c.fetched, c.nextPoll = fetch.Snapshot{}, now
		return
	}
	if c.fleet.options.Settle > 0 {
		c.settle(now, state)
	}
	c.state, c.appliedFolder, c.commit = state, c.fetched.Folder.Digest, ""
	if state.Flux {
		c.commit = string(c.fetched.Commit)
	}
	c.fleet.recordApply(now.Sub(c.fetched.FirstSeen))
	c.changed(now)
}

// settle has the workloads of the next state that the last one has not, or has with other content, be in progress for a while.
func (c *cluster) settle(now time.Time, next *inventory.State) {
	last := map[status.Object]bool{}
	if c.state != nil {
		for _, a := range c.state.Apps {
			for _, o := range a.Objects {
				last[o] = true
			}
		}
	}
	settling := map[status.Object]bool{}
	for _, a := range next.Apps {
		for _, o := range a.Objects {
			if isWorkload[o.Kind] && (!last[o] || c.settling[o]) {
				settling[o] = true
			}
		}
	}
	c.settling, c.readyAt = settling, time.Time{}
	if len(settling) > 0 {
		c.readyAt = now.Add(jitter(c.random, c.fleet.options.Settle))
	}
}

func (c *cluster) changed(now time.Time) {
	if c.loop != nil {
		c.loop.Changed(now)
	}
}

// order leaves an order for the next turn, because the current one may take long.
func (c *cluster) order(o script.Order) {
	c.ordersMu.Lock()
	defer c.ordersMu.Unlock()
	c.orders = append(c.orders, o)
}

// takeOrders carries out the orders since the last turn.
func (c *cluster) takeOrders(now time.Time) {
	c.ordersMu.Lock()
	all := c.orders
	c.orders = nil
	c.ordersMu.Unlock()
	for _, o := range all {
		c.follow(o, now)
	}
}

func (c *cluster) follow(o script.Order, now time.Time) {
	switch o.Do {
	case script.Offline:
		c.offline = true
	case script.Online:
		c.offline, c.nextPoll = false, now
	case script.Lag:
		if c.lag = o.By; !c.applyAt.IsZero() {
			c.applyAt = now.Add(o.By)
		}
	case script.Fail:
		c.failing = append(c.failing, o.Object)
	case script.Heal:
		c.failing = nil
	case script.Drift:
		c.drifted = append(c.drifted, o.Object)
	}
	c.changed(now)
}

// Changes returns nil: turns call the loop, which does not run alone.
func (c *cluster) Changes() <-chan struct{} { return nil }

// Settled reports whether the cluster has applied something, or has nothing to apply.
func (c *cluster) Settled() bool { return c.state != nil || c.applyAt.IsZero() }

// Report returns what an agent would see. The loop calls it during a turn.
func (c *cluster) Report() status.Report {
	r := status.Report{Schema: status.Schema, Apps: []status.App{}}
	if c.state == nil {
		return r
	}
	for _, a := range c.state.Apps {
		app := status.App{Label: a.Label, Commit: c.commit, Objects: make([]status.Object, len(a.Objects))}
		for i, o := range a.Objects {
			app.Objects[i] = c.objectState(o)
		}
		r.Apps = append(r.Apps, app)
	}
	return r
}

// driftedContent is the reported content of an object that was changed.
const driftedContent = "drifted"

// isWorkload lists the kinds that are in progress for a while.
var isWorkload = map[string]bool{"Deployment": true, "StatefulSet": true, "DaemonSet": true, "Job": true, "Pod": true}

// objectState returns an object with its simulated health.
func (c *cluster) objectState(o status.Object) status.Object {
	switch {
	case matchesAny(c.failing, o):
		o.Status, o.Reason = status.Failed, "simulated failure"
	case c.settling[o]:
		o.Status, o.Reason = status.InProgress, "simulated progress"
	}
	if matchesAny(c.drifted, o) {
		o.Content = driftedContent
	}
	return o
}

func matchesAny(patterns []string, o status.Object) bool {
	for _, p := range patterns {
		if script.Matches(p, o.Kind, o.Name) {
			return true
		}
	}
	return false
}

// lastState returns the state after the last turn.
func (c *cluster) lastState() clusterState { return clusterState(c.stateAfterTurn.Load()) }

// storeState stores the state at the end of a turn.
func (c *cluster) storeState() { c.stateAfterTurn.Store(int32(c.currentState())) }

// currentState returns the state as it is now. Only the cluster's turn calls it.
func (c *cluster) currentState() clusterState {
	switch {
	case c.offline:
		return stateOffline
	case c.fetchErr != nil:
		return stateUnable
	case !c.polled || !c.applyAt.IsZero():
		return stateBehind
	case c.loop != nil && (c.reported == 0 || c.loop.Pending()):
		return stateSilent
	case c.hasFailed():
		return stateFailed
	}
	return stateCurrent
}

// hasFailed reports whether an object on the cluster is failed.
func (c *cluster) hasFailed() bool {
	if c.state == nil || len(c.failing) == 0 {
		return false
	}
	for _, a := range c.state.Apps {
		for _, o := range a.Objects {
			if matchesAny(c.failing, o) {
				return true
			}
		}
	}
	return false
}

// countingWriter is a Writer that counts reports.
type countingWriter struct {
	to      publish.Writer
	cluster *cluster
}

// Write writes a report. The loop calls it during a turn.
func (w countingWriter) Write(ctx context.Context, r status.Report) error {
	began := time.Now()
	err := w.to.Write(ctx, r)
	if err == nil {
		w.cluster.reported++
	}
	w.cluster.fleet.recordReport(time.Since(began), err)
	return err
}

// jitter returns d, plus or minus a tenth.
func jitter(draw *rand.Rand, d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - d/10 + time.Duration(draw.Int64N(int64(d/5)))
}
