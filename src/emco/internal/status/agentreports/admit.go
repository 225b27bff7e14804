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
func (w *ReportWriter) admit(ctx context.Context, cluster v2.ClusterKey, k tokenSum) error {
	now := w.options.Now()
	verdict, old := w.checkKey(cluster, k, now)
	if verdict == nil || !old {
		return verdict
	}
	if err := w.lookUp(ctx, cluster, now); err != nil {
		return err
	}
	verdict, _ = w.checkKey(cluster, k, now)
	return verdict
}

// checkKey decides from the cache, and reports whether the cache is too old for a refusal.
func (w *ReportWriter) checkKey(cluster v2.ClusterKey, k tokenSum, now time.Time) (verdict error, old bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[cluster]
	switch {
	case q == nil || now.Sub(q.checked) >= registrationTTL:
		return errDenied, true
	case q.registration == "" || q.registration != q.agent.Registration || !matchesToken(q.agent, k, now):
		return errDenied, now.Sub(q.checked) >= tokenRereadGap
	}
	return q.rateLimit(cluster, now), false
}

// rateLimit counts a report of a cluster; it returns Throttled if the cluster sends too many.
func (q *clusterQueue) rateLimit(cluster v2.ClusterKey, now time.Time) error {
	if q.nextAllowed.Before(now) {
		q.nextAllowed = now
	}
	if ahead := q.nextAllowed.Sub(now); ahead > reportBurst*reportGap {
		return errs.Throttle("take", "report of "+string(cluster), ahead-reportBurst*reportGap+reportGap, errors.New("the cluster reports too often"))
	}
	q.nextAllowed = q.nextAllowed.Add(reportGap)
	return nil
}

// lookUp reads the registration and the agent of a cluster into the cache. It removes the agent
// of a cluster that is no longer registered.
func (w *ReportWriter) lookUp(ctx context.Context, cluster v2.ClusterKey, now time.Time) error {
	wait := time.NewTimer(lookupWait)
	defer wait.Stop()
	select {
	case w.lookupSlots <- struct{}{}:
		defer func() { <-w.lookupSlots }()
	case <-wait.C:
		return retryLater("too many clusters are being looked up")
	case <-ctx.Done():
		return retryLater("the request has ended")
	}
	c, err := w.clusters.Cluster(ctx, cluster)
	gone := errs.Is(err, errs.NotFound)
	if err != nil && !gone {
		w.options.Log.Warn("reporting cluster not readable", "cluster", cluster, "err", err)
		return retryLater("the cluster cannot be looked up now") // the caller is not authenticated yet, so it learns no more
	}
	a, err := w.agents.Agent(ctx, cluster)
	if err != nil {
		return err
	}
	if gone {
		return w.removeAgent(ctx, a)
	}
	w.cacheAgent(a, c, now)
	return nil
}

// cacheAgent stores the agent of a cluster that has tokens, unless the cache holds a newer version.
func (w *ReportWriter) cacheAgent(a agents.Agent, c Cluster, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[a.Cluster]
	if q == nil {
		if len(a.Tokens) == 0 {
			return
		}
		q = &clusterQueue{agent: a}
		w.queues[a.Cluster] = q
	}
	if q.waitingBatch == nil && q.writingBatch == nil && a.Mod > q.agent.Mod {
		q.agent = a
	}
	q.checked, q.registration = now, ""
	if c.Reports {
		q.registration = c.Registration
	}
}

// removeAgent deletes the stored agent of a cluster that is gone.
func (w *ReportWriter) removeAgent(ctx context.Context, a agents.Agent) error {
	w.mu.Lock()
	if q := w.queues[a.Cluster]; q != nil && q.waitingBatch == nil && q.writingBatch == nil {
		delete(w.queues, a.Cluster)
	}
	w.mu.Unlock()
	if a.Mod == 0 {
		return nil
	}
	if err := w.agents.DeleteAgent(ctx, a); err != nil && !errs.Is(err, errs.Conflict) {
		return err
	}
	return nil
}
