package gitstatus

import (
	"context"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
)

// record is what is known of a cluster's reports.
type record struct {
	seq   uint64
	at    time.Time // when that report was received
	heard time.Time // at, as it was last written down
}

// take checks a document and hands on what it says. The error says that it could not be
// dealt with now; a document that is refused is dealt with.
func (p *poller) take(ctx context.Context, d intake.Document) error {
	rec, err := p.record(ctx, d.Cluster)
	if err != nil {
		return fmt.Errorf("what %s said last: %w", d.Cluster, err)
	}
	r, err := intake.Check(d, rec.seq)
	if err != nil {
		p.refuse(d, err)
		return nil
	}
	before, now := *rec, p.s.options.Now().UTC()
	rec.receive(r, d.First, now)
	if err := p.teller.Notify(ctx, r, rec.at); err != nil {
		*rec = before // the same document comes again
		return err
	}
	p.s.notes.Accepted(r, rec.at, now)
	p.s.options.Count(intake.Accepted)
	p.confirm(r, rec)
	return nil
}

// confirm writes down that the cluster lives, now and then: once for all that it holds, and
// not with each report.
func (p *poller) confirm(r status.Report, rec *record) {
	if rec.at.Sub(rec.heard) >= p.s.options.Refresh {
		rec.heard = rec.at
		p.s.options.Heard(r.Cluster, rec.seq, rec.at)
	}
}

func (p *poller) refuse(d intake.Document, err error) {
	result := intake.ResultOf(err)
	p.s.options.Count(result)
	p.s.notes.Refused(d, err, p.s.options.Now().UTC())
	p.s.options.Log.Warn("a report is refused", "cluster", d.Cluster, "repo", p.at.repo.URL, "commit", d.Where, "result", result, "err", err)
}

// record returns what is known of a cluster's reports, at first from what was written
// down.
func (p *poller) record(ctx context.Context, cluster string) (*record, error) {
	if rec := p.records[cluster]; rec != nil {
		return rec, nil
	}
	seq, at, err := p.s.fleet.Last(ctx, cluster)
	if err != nil {
		return nil, err
	}
	rec := &record{seq: seq, at: at, heard: at}
	p.records[cluster] = rec
	return rec, nil
}

// receive notes a report that counts. Nobody knows how old a report is that was there
// when the process started: not older than the cluster says, if that is in the past.
// Of one that was taken in before it is known.
func (rec *record) receive(r status.Report, first bool, now time.Time) {
	switch {
	case r.Seq == rec.seq && !rec.at.IsZero():
	case first && r.At.Before(now):
		rec.at = r.At.UTC()
	default:
		rec.at = now
	}
	rec.seq = r.Seq
}
