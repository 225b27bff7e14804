package httpstatus

import (
	"context"
	"errors"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// admit says whether somebody with a key may report for a cluster now: Unauthorized, or
// Throttled if the cluster reports too often. It reads nothing as long as what is known
// fits and is not old.
func (d *Desk) admit(ctx context.Context, cluster string, k key) error {
	now := d.options.Now()
	verdict, old := d.judge(cluster, k, now)
	if verdict == nil || !old {
		return verdict
	}
	if err := d.lookUp(ctx, cluster, now); err != nil {
		return err
	}
	verdict, _ = d.judge(cluster, k, now)
	return verdict
}

// judge answers by what is known, and says whether that is too old to go by.
func (d *Desk) judge(cluster string, k key, now time.Time) (verdict error, old bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.places[cluster]
	switch {
	case p == nil || now.Sub(p.checked) >= recheck:
		return errDenied, true
	case p.identity == "" || p.identity != p.agent.Identity || !opens(p.agent, k, now):
		return errDenied, now.Sub(p.checked) >= reread
	}
	return p.pay(cluster, now), false
}

// pay counts a report of a cluster; Throttled if it sends too many.
func (p *place) pay(cluster string, now time.Time) error {
	if p.paid.Before(now) {
		p.paid = now
	}
	if ahead := p.paid.Sub(now); ahead > burst*gap {
		return errs.Throttle("take", "report of "+cluster, ahead-burst*gap+gap, errors.New("the cluster reports too often"))
	}
	p.paid = p.paid.Add(gap)
	return nil
}

// lookUp reads what is known of a cluster and its agent. What was said of a cluster that is
// not registered any more is removed.
func (d *Desk) lookUp(ctx context.Context, cluster string, now time.Time) error {
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case d.reading <- struct{}{}:
		defer func() { <-d.reading }()
	case <-wait.C:
		return later("too many clusters are looked up")
	case <-ctx.Done():
		return later("the request has ended")
	}
	c, err := d.fleet.Cluster(ctx, cluster)
	gone := errs.Is(err, errs.NotFound)
	if err != nil && !gone {
		d.options.Log.Warn("a cluster that reports cannot be looked up", "cluster", cluster, "err", err)
		return later("the cluster cannot be looked up now") // whoever asks is not known yet
	}
	a, err := d.book.Agent(ctx, cluster)
	if err != nil {
		return err
	}
	if gone {
		return d.forget(ctx, a)
	}
	d.note(a, c, now)
	return nil
}

// note keeps what was read of a cluster, if it has tokens. Somebody may have written something newer meanwhile.
func (d *Desk) note(a appcontext.Agent, c Cluster, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.places[a.Cluster]
	if p == nil {
		if len(a.Tokens) == 0 {
			return
		}
		p = &place{agent: a}
		d.places[a.Cluster] = p
	}
	if p.pending == nil && p.flying == nil && a.Mod > p.agent.Mod {
		p.agent = a
	}
	p.checked, p.identity = now, ""
	if c.Reports {
		p.identity = c.Identity
	}
}

// forget removes what is known of a cluster that is gone.
func (d *Desk) forget(ctx context.Context, a appcontext.Agent) error {
	d.mu.Lock()
	if p := d.places[a.Cluster]; p != nil && p.pending == nil && p.flying == nil {
		delete(d.places, a.Cluster)
	}
	d.mu.Unlock()
	if a.Mod == 0 {
		return nil
	}
	if err := d.book.ForgetAgent(ctx, a); err != nil && !errs.Is(err, errs.Conflict) {
		return err
	}
	return nil
}
