package gitstatus

import (
	"context"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
)

// clusterRecord is the state of a cluster's reports.
type clusterRecord struct {
	seq         uint64
	at          time.Time // when that report was received
	heartbeatAt time.Time // when the last heartbeat was sent
}

// accept checks a document and delivers its reports. An error means that it could not do so now; a
// refused document is not an error. A document that causes a panic is refused.
func (p *poller) accept(ctx context.Context, d intake.Document) error {
	rec, err := p.clusterState(ctx, d.Cluster)
	if err != nil {
		return fmt.Errorf("read the last report of %s: %w", d.Cluster, err)
	}
	before := *rec
	err = p.source.options.Panics.Do(contain.Reports, "the report of "+string(d.Cluster), func() error { return p.deliver(ctx, d, rec) })
	if err != nil {
		*rec = before
	}
	if contain.Is(err) {
		p.recordRefused(d, err)
		return nil
	}
	return err // after one, the next poll tries the same document again
}

func (p *poller) deliver(ctx context.Context, d intake.Document, rec *clusterRecord) error {
	r, err := intake.Check(d, rec.seq, p.source.options.Now())
	if err != nil {
		p.recordRefused(d, err)
		return nil
	}
	now := p.source.options.Now().UTC()
	rec.update(r, d.First, now)
	if err := p.notifier.Notify(ctx, r, rec.at); err != nil {
		return err
	}
	p.source.agents.Accepted(r, rec.at, now)
	p.source.options.Count(intake.Accepted)
	p.sendHeartbeat(r, rec)
	return nil
}

// sendHeartbeat confirms every Refresh that the cluster is alive, once for all its
// pairs.
func (p *poller) sendHeartbeat(r status.Report, rec *clusterRecord) {
	if rec.at.Sub(rec.heartbeatAt) >= p.source.options.Refresh {
		rec.heartbeatAt = rec.at
		p.source.options.Heartbeat(v2.ClusterKey(r.Cluster), rec.seq, rec.at)
	}
}

func (p *poller) recordRefused(d intake.Document, err error) {
	result := intake.ResultOf(err)
	p.source.options.Count(result)
	p.source.agents.Refused(d, err, p.source.options.Now().UTC())
	p.source.options.Log.Warn("report refused", "cluster", d.Cluster, "repo", p.location.repo.URL, "commit", d.Where, "result", result, "err", err)
}

// clusterState returns the state of a cluster's reports, which it first reads from the
// store.
func (p *poller) clusterState(ctx context.Context, cluster v2.ClusterKey) (*clusterRecord, error) {
	if rec := p.clusterStates[cluster]; rec != nil {
		return rec, nil
	}
	seq, at, err := p.source.clusters.Last(ctx, cluster)
	if err != nil {
		return nil, err
	}
	rec := &clusterRecord{seq: seq, at: at, heartbeatAt: at}
	p.clusterStates[cluster] = rec
	return rec, nil
}

// update records an accepted report. The age of a report that the first poll finds is unknown:
// the time by the cluster's clock counts, if that is in the past. For a report that another
// process accepted before, the stored time counts.
func (rec *clusterRecord) update(r status.Report, first bool, now time.Time) {
	switch {
	case r.Seq == rec.seq && !rec.at.IsZero():
	case first && r.At.Before(now):
		rec.at = r.At.UTC()
	default:
		rec.at = now
	}
	rec.seq = r.Seq
}
