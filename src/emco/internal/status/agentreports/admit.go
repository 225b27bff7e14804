package agentreports

import (
	"context"
	"errors"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
)

// admit checks whether the holder of a token may report for a cluster now. It returns Unauthorized,
// or Throttled if the cluster reports too often. It reads the stores only if the cached agent does
// not match or is too old.
func (d *ReportWriter) admit(ctx context.Context, cluster v2.ClusterKey, k tokenSum) error {
	now := d.options.Now()
	verdict, old := d.checkKey(cluster, k, now)
	if verdict == nil || !old {
		return verdict
	}
	if err := d.lookUp(ctx, cluster, now); err != nil {
		return err
	}
	verdict, _ = d.checkKey(cluster, k, now)
	return verdict
}

// checkKey decides from the cache, and reports whether the cache is too old for a refusal.
func (d *ReportWriter) checkKey(cluster v2.ClusterKey, k tokenSum, now time.Time) (verdict error, old bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.queues[cluster]
	switch {
	case p == nil || now.Sub(p.checked) >= registrationTTL:
		return errDenied, true
	case p.registration == "" || p.registration != p.agent.Registration || !matchesToken(p.agent, k, now):
		return errDenied, now.Sub(p.checked) >= tokenRereadGap
	}
	return p.rateLimit(cluster, now), false
}

// rateLimit counts a report of a cluster; it returns Throttled if the cluster sends too many.
func (p *clusterQueue) rateLimit(cluster v2.ClusterKey, now time.Time) error {
	if p.nextAllowed.Before(now) {
		p.nextAllowed = now
	}
	if ahead := p.nextAllowed.Sub(now); ahead > reportBurst*reportGap {
		return errs.Throttle("take", "report of "+string(cluster), ahead-reportBurst*reportGap+reportGap, errors.New("the cluster reports too often"))
	}
	p.nextAllowed = p.nextAllowed.Add(reportGap)
	return nil
}

// lookUp reads the registration and the agent of a cluster into the cache. It removes the agent
// of a cluster that is no longer registered.
func (d *ReportWriter) lookUp(ctx context.Context, cluster v2.ClusterKey, now time.Time) error {
	wait := time.NewTimer(lookupWait)
	defer wait.Stop()
	select {
	case d.lookupSlots <- struct{}{}:
		defer func() { <-d.lookupSlots }()
	case <-wait.C:
		return retryLater("too many clusters are being looked up")
	case <-ctx.Done():
		return retryLater("the request has ended")
	}
	c, err := d.clusters.Cluster(ctx, cluster)
	gone := errs.Is(err, errs.NotFound)
	if err != nil && !gone {
		d.options.Log.Warn("reporting cluster not readable", "cluster", cluster, "err", err)
		return retryLater("the cluster cannot be looked up now") // the caller is not authenticated yet, so it learns no more
	}
	a, err := d.agents.Agent(ctx, cluster)
	if err != nil {
		return err
	}
	if gone {
		return d.removeAgent(ctx, a)
	}
	d.cacheAgent(a, c, now)
	return nil
}

// cacheAgent stores the agent of a cluster that has tokens, unless the cache holds a newer version.
func (d *ReportWriter) cacheAgent(a agents.Agent, c Cluster, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.queues[a.Cluster]
	if p == nil {
		if len(a.Tokens) == 0 {
			return
		}
		p = &clusterQueue{agent: a}
		d.queues[a.Cluster] = p
	}
	if p.waitingBatch == nil && p.writingBatch == nil && a.Mod > p.agent.Mod {
		p.agent = a
	}
	p.checked, p.registration = now, ""
	if c.Reports {
		p.registration = c.Registration
	}
}

// removeAgent deletes the stored agent of a cluster that is gone.
func (d *ReportWriter) removeAgent(ctx context.Context, a agents.Agent) error {
	d.mu.Lock()
	if p := d.queues[a.Cluster]; p != nil && p.waitingBatch == nil && p.writingBatch == nil {
		delete(d.queues, a.Cluster)
	}
	d.mu.Unlock()
	if a.Mod == 0 {
		return nil
	}
	if err := d.agents.DeleteAgent(ctx, a); err != nil && !errs.Is(err, errs.Conflict) {
		return err
	}
	return nil
}
