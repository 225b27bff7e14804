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
// the monitor's own loop of reports. What it does is done during its turns.
type cluster struct {
	fleet *Fleet
	place fetch.Place
	draw  *rand.Rand
	loop  *publish.Loop // nil: it does not report

	where atomic.Int32 // the condition after the last turn, for who does not want to wait for one

	post   sync.Mutex
	orders []script.Order // that came since the last turn

	mu       sync.Mutex // held during a turn, which may take as long as a push does
	offline  bool
	lag      time.Duration
	failing  []string // patterns
	drifted  []string // patterns; until the next look
	nextLook time.Time
	looked   bool        // at least once
	why      error       // of the last look, if that failed
	seen     fetch.Found // the newest that was fetched
	applyAt  time.Time   // when that is applied; zero if it is
	folder   inventory.Digest
	held     *inventory.Held
	commit   string    // that Flux applied last
	wellAt   time.Time // until then workloads are in progress; zero if they are not
	reported int
}

// far is when somebody comes who has nothing to do.
const far = time.Hour

// turn does what is due.
func (c *cluster) turn(ctx context.Context, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.note()
	c.obey(now)
	if c.offline {
		return now.Add(far)
	}
	if !now.Before(c.nextLook) {
		c.look(ctx, now)
	}
	if !c.applyAt.IsZero() && !now.Before(c.applyAt) {
		c.apply(now)
	}
	if !c.wellAt.IsZero() && !now.Before(c.wellAt) {
		c.wellAt = time.Time{}
		c.changed(now)
	}
	if c.reports() && c.loop.Due(now) <= 0 {
		c.loop.Tell(ctx)
	}
	return c.next(time.Now())
}

func (c *cluster) reports() bool { return c.loop != nil && c.looked }

// next is when something is to be done again.
func (c *cluster) next(now time.Time) time.Time {
	at := c.nextLook
	for _, t := range []time.Time{c.applyAt, c.wellAt} {
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

// look is one interval of the reconciler: it fetches, and puts right what has drifted.
func (c *cluster) look(ctx context.Context, now time.Time) {
	c.nextLook = now.Add(jitter(c.draw, c.fleet.options.Interval))
	if len(c.drifted) > 0 {
		c.drifted = nil
		c.changed(now)
	}
	found, err := c.fleet.fetcher.Look(ctx, c.place, c.seen)
	if errs.Is(err, errs.NotFound) {
		err = nil // nothing was written for it yet
	}
	if c.why = err; err != nil {
		return
	}
	c.looked = true
	if found.Commit == c.seen.Commit {
		return
	}
	if c.seen = found; c.folder == found.Folder.Digest && c.held != nil {
		c.follow(now)
		return
	}
	c.applyAt = now.Add(c.lag)
	if most := c.fleet.options.Apply; most > 0 {
		c.applyAt = c.applyAt.Add(time.Duration(c.draw.Int64N(int64(most))))
	}
}

// follow notes a commit that changes nothing here. Flux says which commit it is at, and so
// it is news.
func (c *cluster) follow(now time.Time) {
	if c.applyAt = (time.Time{}); c.held.Flux {
		c.commit = string(c.seen.Commit)
		c.changed(now)
	}
}

func (c *cluster) apply(now time.Time) {
	c.applyAt = time.Time{}
	held, ok := c.fleet.objects.Apply(c.seen.Root, c.seen.Folder)
	if !ok { // what was read is forgotten by now
		c.seen, c.nextLook = fetch.Found{}, now
		return
	}
	c.held, c.folder, c.commit = held, c.seen.Folder.Digest, ""
	if held.Flux {
		c.commit = string(c.seen.Commit)
	}
	if c.fleet.options.Settle > 0 && held.Objects() > 0 {
		c.wellAt = now.Add(jitter(c.draw, c.fleet.options.Settle))
	}
	c.fleet.applied(now.Sub(c.seen.Born))
	c.changed(now)
}

func (c *cluster) changed(now time.Time) {
	if c.loop != nil {
		c.loop.Changed(now)
	}
}

// order leaves an order for the next turn; a turn that is under way may take long.
func (c *cluster) order(o script.Order) {
	c.post.Lock()
	defer c.post.Unlock()
	c.orders = append(c.orders, o)
}

// obey carries out the orders that came.
func (c *cluster) obey(now time.Time) {
	c.post.Lock()
	all := c.orders
	c.orders = nil
	c.post.Unlock()
	for _, o := range all {
		c.carryOut(o, now)
	}
}

func (c *cluster) carryOut(o script.Order, now time.Time) {
	switch o.Do {
	case script.Offline:
		c.offline = true
	case script.Online:
		c.offline, c.nextLook = false, now
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

// Changes is for loops that run by themselves; this one is driven.
func (c *cluster) Changes() <-chan struct{} { return nil }

// Settled says whether the cluster knows what it holds.
func (c *cluster) Settled() bool { return c.held != nil || c.applyAt.IsZero() }

// Report is what the agent sees. It is called during a turn.
func (c *cluster) Report() status.Report {
	r := status.Report{Schema: status.Schema, Apps: []status.App{}}
	if c.held == nil {
		return r
	}
	for _, a := range c.held.Apps {
		app := status.App{Label: a.Label, Commit: c.commit, Objects: make([]status.Object, len(a.Objects))}
		for i, o := range a.Objects {
			app.Objects[i] = c.state(o)
		}
		r.Apps = append(r.Apps, app)
	}
	return r
}

// touched is the content of an object that somebody has changed.
const touched = "drifted"

// workload are the kinds that take time to become well.
var workload = map[string]bool{"Deployment": true, "StatefulSet": true, "DaemonSet": true, "Job": true, "Pod": true}

// state is how an object is doing.
func (c *cluster) state(o status.Object) status.Object {
	switch {
	case meant(c.failing, o):
		o.Status, o.Reason = status.Failed, "simulated: it was told to fail"
	case !c.wellAt.IsZero() && workload[o.Kind]:
		o.Status, o.Reason = status.InProgress, "simulated: it takes its time"
	}
	if meant(c.drifted, o) {
		o.Content = touched
	}
	return o
}

func meant(patterns []string, o status.Object) bool {
	for _, p := range patterns {
		if script.Matches(p, o.Kind, o.Name) {
			return true
		}
	}
	return false
}

// condition is where the cluster is, for the summary.
func (c *cluster) condition() condition { return condition(c.where.Load()) }

// note has the condition be what it is now. It is called with mu held.
func (c *cluster) note() { c.where.Store(int32(c.judged())) }

func (c *cluster) judged() condition {
	switch {
	case c.offline:
		return isOffline
	case c.why != nil:
		return isUnable
	case !c.looked || !c.applyAt.IsZero():
		return isBehind
	case c.loop != nil && (c.reported == 0 || c.loop.Pending()):
		return isSilent
	case c.ill():
		return isFailed
	}
	return isCurrent
}

// ill says whether an object that the cluster holds fails.
func (c *cluster) ill() bool {
	if c.held == nil || len(c.failing) == 0 {
		return false
	}
	for _, a := range c.held.Apps {
		for _, o := range a.Objects {
			if meant(c.failing, o) {
				return true
			}
		}
	}
	return false
}

// counted is a Writer that counts what goes through it.
type counted struct {
	to      publish.Writer
	cluster *cluster
}

// Write is called during a turn.
func (w counted) Write(ctx context.Context, r status.Report) error {
	began := time.Now()
	err := w.to.Write(ctx, r)
	if err == nil {
		w.cluster.reported++
	}
	w.cluster.fleet.told(time.Since(began), err)
	return err
}

// jitter is a time of about d: a tenth more or less.
func jitter(draw *rand.Rand, d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - d/10 + time.Duration(draw.Int64N(int64(d/5)))
}
