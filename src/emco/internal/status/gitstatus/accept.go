package gitstatus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
)

// clusterRecord is the state of a cluster's reports.
type clusterRecord struct {
	seq uint64
	at  time.Time // when that report was received
}

// maxStores are reports that wait for the store at the same time. It writes them together.
const maxStores = 64

// acceptAll accepts documents, each of another cluster. It returns their errors, see accept.
func (p *poller) acceptAll(ctx context.Context, docs []intake.Document) []error {
	var all sync.WaitGroup
	results := make([]error, len(docs))
	slots := make(chan struct{}, maxStores)
	for i, d := range docs {
		rec, err := p.clusterState(ctx, d.Cluster)
		if err != nil {
			results[i] = err
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			results[i] = p.accept(ctx, d, rec)
		})
	}
	all.Wait()
	return results
}

// accept checks a document and stores its report. An error means that it could not do so now; a
// refused document is not an error. A document that causes a panic is refused.
func (p *poller) accept(ctx context.Context, d intake.Document, rec *clusterRecord) error {
	before := *rec
	err := p.source.options.Panics.Do(contain.Reports, "the report of "+string(d.Cluster), func() error { return p.store(ctx, d, rec) })
	if err != nil {
		*rec = before
	}
	if contain.Is(err) || intake.IsRefusal(err) {
		p.recordRefused(d, err)
		return nil
	}
	return err // after one, the next poll tries the same document again
}

func (p *poller) store(ctx context.Context, d intake.Document, rec *clusterRecord) error {
	r, err := intake.Check(d, rec.seq, p.source.options.Now())
	if err != nil {
		p.recordRefused(d, err)
		return nil
	}
	rec.update(r, d.First, p.source.options.Now().UTC())
	if err := p.source.store.Store(ctx, intake.Received{Report: r, Text: d.Text, At: rec.at, First: d.First}); err != nil {
		return err
	}
	p.source.options.Count(intake.Accepted)
	return nil
}

func (p *poller) recordRefused(d intake.Document, err error) {
	result := intake.ResultOf(err)
	p.source.options.Count(result)
	p.source.options.Refused(d, err)
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
		return nil, fmt.Errorf("read the last report of %s: %w", cluster, err)
	}
	rec := &clusterRecord{seq: seq, at: at}
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
