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
func (d *ReportWriter) Store(ctx context.Context, r intake.Received) error {
	cluster := v2.ClusterKey(r.Report.Cluster)
	if err := d.loadAgent(ctx, cluster, r.First); err != nil {
		return err
	}
	c := &reportClaim{cluster: cluster, report: r.Report, received: r.At, done: make(chan error, 1)}
	if err := c.setDocument(r.Text, nil); err != nil {
		return err
	}
	if known, err := d.enqueueNews(c); known || err != nil {
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
func (d *ReportWriter) enqueueNews(c *reportClaim) (known bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.queues[c.cluster]
	if p == nil { // it was removed after it was loaded
		p = &clusterQueue{agent: agents.Agent{Cluster: c.cluster}}
		d.queues[c.cluster] = p
	}
	base, stored := p.agent, p.waitingBatch == nil && p.writingBatch == nil
	if stored && c.digest == base.DocumentID && c.report.Seq >= base.Seq && (c.report.Seq == base.Seq || c.received.Sub(base.At) < d.options.Refresh) {
		return true, nil
	}
	return false, d.enqueueLocked(p, c)
}

// loadAgent caches the agent of a cluster, and reads it again if another process may have written it.
func (d *ReportWriter) loadAgent(ctx context.Context, cluster v2.ClusterKey, again bool) error {
	d.mu.Lock()
	p := d.queues[cluster]
	d.mu.Unlock()
	if p != nil && !again {
		return nil
	}
	a, err := d.agents.Agent(ctx, cluster)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch p := d.queues[cluster]; {
	case p == nil:
		d.queues[cluster] = &clusterQueue{agent: a}
	case p.waitingBatch == nil && p.writingBatch == nil && a.Mod > p.agent.Mod:
		p.agent, p.checked = a, time.Time{}
	}
	return nil
}
