package rsync

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// trust is how long a platform is believed to know what it was told: somebody may change
// it there. It is looked at with the next delivery after that.
const trust = time.Hour

// platforms tells the platforms of clusters where to look. That comes after the commit and
// before the outcomes are settled, so pairs count as delivered when both are done; after a
// crash both are done again, which changes nothing. Each cluster is told by itself, one
// target after the other, and not more than slots allow at a time.
type platforms struct {
	slots   chan struct{}
	brakes  *queue.Cancellations
	address func(pair.Target, route.Route) syncer.Target
	open    func(pair.Target) bool // something is to be done for it
	settle  func(context.Context, []pair.Result)

	lanes  *queue.Workers
	alarms *queue.Timers

	mu    sync.Mutex
	calls map[pair.Target]call
	known map[pair.Target]known
}

// call is what a platform is to be told of a target, and what comes true with it.
type call struct {
	at       syncer.Target
	platform syncer.Bootstrapper
	apps     []string // none: it is to forget the target
	all      sum
	after    time.Time // not before
	outcomes []pair.Result
}

// known is what a platform was told, and when.
type known struct {
	all sum
	at  time.Time
}

// sum stands for all that a platform is told, credentials included.
type sum [sha256.Size]byte

// newPlatforms completes p.
func newPlatforms(ctx context.Context, p *platforms) *platforms {
	p.calls, p.known = map[pair.Target]call{}, map[pair.Target]known{}
	p.lanes = queue.NewWorkers(p.work)
	p.alarms = queue.NewTimers(func(t pair.Target) { p.lanes.Add(ctx, t.Cluster, t) })
	return p
}

// visit takes in what came of a commit. It keeps the outcomes of targets of which a
// platform is to be told something, and settles them when that is done. It returns the
// others.
func (p *platforms) visit(ctx context.Context, done []pair.Result, found map[pair.Target]route.Route) (others []pair.Result) {
	calls := map[pair.Target]call{}
	for _, o := range done {
		t := pair.TargetOf(o.Key)
		c, begun := calls[t]
		if o.Err == nil && !begun {
			c = p.newCall(t, found[t], o.Apps)
		}
		if o.Err != nil || c.platform == nil || p.knows(t, c) {
			others = append(others, o)
			continue
		}
		c.outcomes = append(c.outcomes, o)
		calls[t] = c
	}
	for t, c := range calls {
		p.queue(ctx, t, c)
	}
	return others
}

// newCall is about a target with the given apps. Its platform is nil if there is none.
func (p *platforms) newCall(t pair.Target, d route.Route, apps []string) call {
	c := call{at: p.address(t, d), platform: syncer.Bootstrapping(d.Backend), apps: apps}
	c.all = sha256.Sum256(fmt.Append(nil, d.Settings.Kind, d.Settings.Options, c.at, apps)) // maps are written in order of their keys
	if len(apps) == 0 {
		c.after = time.Now().Add(d.Settings.Delay)
	}
	return c
}

// knows reports whether the platform was told the same lately. What it was to be told in
// between is called off.
func (p *platforms) knows(t pair.Target, c call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, told := p.known[t]
	if !told || k.all != c.all || time.Since(k.at) >= trust {
		return false
	}
	delete(p.calls, t)
	return true
}

// queue has a target's call made when it is time. It takes the place of one that was not
// made yet; time that has passed since the files left counts.
func (p *platforms) queue(ctx context.Context, t pair.Target, c call) {
	p.mu.Lock()
	if old, waits := p.calls[t]; waits && len(old.apps)+len(c.apps) == 0 {
		c.after = old.after
	}
	p.calls[t] = c
	p.mu.Unlock()
	if d := time.Until(c.after); d > 0 {
		p.alarms.Set(t, d)
		return
	}
	p.lanes.Add(ctx, t.Cluster, t)
}

// work makes the calls of a cluster.
func (p *platforms) work(ctx context.Context, _ string, due []pair.Target) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return
	}
	for _, t := range due {
		p.make(t)
	}
}

// make makes a target's call if it is time, unless the deployment was stopped meanwhile.
func (p *platforms) make(t pair.Target) {
	c, due := p.take(t)
	if !due || !p.open(t) {
		return
	}
	own := p.brakes.For(t.UID)
	err := c.make(own)
	p.note(t, c, err)
	for i := range c.outcomes {
		c.outcomes[i].Err = err
	}
	p.settle(own, c.outcomes)
}

func (c call) make(ctx context.Context) error {
	if len(c.apps) == 0 {
		return c.platform.Release(ctx, c.at)
	}
	return c.platform.Bootstrap(ctx, c.at, c.apps)
}

// take returns a target's call, if there is one and its time has come.
func (p *platforms) take(t pair.Target) (c call, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, due = p.calls[t]
	if due && time.Now().Before(c.after) {
		return c, false
	}
	delete(p.calls, t)
	return c, due
}

func (p *platforms) note(t pair.Target, c call, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || len(c.apps) == 0 {
		delete(p.known, t)
		return
	}
	p.known[t] = known{c.all, time.Now()}
}

// drop forgets a target that was stopped, or is gone.
func (p *platforms) drop(t pair.Target) {
	p.alarms.Cancel(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, t)
	delete(p.known, t)
}

// stop waits for calls to end; nothing may be queued any more.
func (p *platforms) stop() {
	p.alarms.Stop()
	p.lanes.Wait()
}
