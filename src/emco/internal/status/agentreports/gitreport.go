package agentreports

import (
	"context"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
)

// Store stores a report that arrived through Git, where only its cluster could write it. It may have the sequence of the last
// one: older versions store a sequence without the document. A report that repeats the stored
// content costs nothing until Refresh has passed since the last one, and then one small value. intake.IsRefusal
// reports whether an error concerns the report; after another one, call Store again.
func (w *ReportWriter) Store(ctx context.Context, r intake.Received) error {
	cluster := v2.ClusterKey(r.Report.Cluster)
	if err := w.loadAgent(ctx, cluster, r.First); err != nil {
		return err
	}
	c := &reportClaim{cluster: cluster, report: r.Report, received: r.At, done: make(chan error, 1)}
	if err := c.setDocument(r.Text, nil); err != nil {
		return err
	}
	if known, err := w.enqueueNews(c); known || err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enqueueNews adds a claim to the waiting ones, unless the stored document has its content and is still fresh.
func (w *ReportWriter) enqueueNews(c *reportClaim) (known bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[c.cluster]
	if q == nil { // it was removed after it was loaded
		q = &clusterQueue{agent: agents.Agent{Cluster: c.cluster}}
		w.queues[c.cluster] = q
	}
	base, stored := q.agent, q.waitingBatch == nil && q.writingBatch == nil
	if stored && c.digest == base.DocumentID && c.report.Seq >= base.Seq && (c.report.Seq == base.Seq || c.received.Sub(base.At) < w.options.Refresh) {
		return true, nil
	}
	return false, w.enqueueLocked(q, c)
}

// loadAgent caches the agent of a cluster, and reads it again if another process may have written it.
func (w *ReportWriter) loadAgent(ctx context.Context, cluster v2.ClusterKey, again bool) error {
	w.mu.Lock()
	q := w.queues[cluster]
	w.mu.Unlock()
	if q != nil && !again {
		return nil
	}
	a, err := w.agents.Agent(ctx, cluster)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch q := w.queues[cluster]; {
	case q == nil:
		w.queues[cluster] = &clusterQueue{agent: a}
	case q.waitingBatch == nil && q.writingBatch == nil && a.Mod > q.agent.Mod:
		q.agent, q.checked = a, time.Time{}
	}
	return nil
}
