package gitstatus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/git"
)

// What becomes of a document.
const (
	Taken        = "taken"
	Forged       = "forged"       // it speaks for another cluster than the one whose branch it is on
	Replayed     = "replayed"     // it is not newer than what was taken in before
	TooLarge     = "toolarge"     // above the limits
	Schema       = "schema"       // of a form that is not known here: the agent is newer
	Malformed    = "malformed"    // no report at all
	Unregistered = "unregistered" // on the branch of no cluster
)

// Results returns all that may become of a document.
func Results() []string {
	return []string{Taken, Forged, Replayed, TooLarge, Schema, Malformed, Unregistered}
}

// aheadLimit is how far the clock of a cluster may be ahead before it is noted.
const aheadLimit = 5 * time.Minute

// document is what was found of a cluster.
type document struct {
	cluster string
	commit  git.Hash
	text    []byte
	err     error // why there is no text
	first   bool  // nothing was found of the cluster before, by this process
}

// record is what is known of a cluster's reports.
type record struct {
	seq uint64
	at  time.Time // when that report was received

	introduced bool // it was said that the cluster has an agent
	told       map[appcontext.PairKey]told
}

// told is what was last handed on of a pair.
type told struct {
	digest manifest.Digest
	at     time.Time
}

// take checks a document and hands on what it says. The error says that it could not be
// dealt with now; a document that is refused is dealt with.
func (p *poller) take(ctx context.Context, d document) error {
	pairs, err := p.s.fleet.Pairs(ctx, d.cluster)
	if err != nil {
		return fmt.Errorf("what %s is to hold: %w", d.cluster, err)
	}
	rec, err := p.record(ctx, d.cluster)
	if err != nil {
		return fmt.Errorf("what %s said last: %w", d.cluster, err)
	}
	r, err := check(d, rec.seq)
	if err != nil {
		p.refuse(d, err)
		return nil
	}
	now := p.s.options.Now().UTC()
	rec.receive(r, d.first, now)
	p.s.notes.taken(r, rec.at, now)
	p.s.options.Count(Taken)
	return p.handOn(ctx, r, pairs, rec)
}

// check reads a document. The sequence of what was taken in last is not refused: after
// a restart the newest document is met again.
func check(d document, last uint64) (status.Report, error) {
	if d.err != nil {
		return status.Report{}, d.err
	}
	r, err := status.Decode(d.text)
	switch {
	case err != nil:
		return r, err
	case r.Cluster != d.cluster:
		return r, &refusal{Forged, fmt.Sprintf("it speaks for %s", r.Cluster)}
	case r.Seq < last || r.Seq == last && !d.first:
		return r, &refusal{Replayed, fmt.Sprintf("its sequence is %d, that of the last report was %d", r.Seq, last)}
	}
	return r, nil
}

// refusal says why a document does not count.
type refusal struct{ result, why string }

// Error returns the reason for people.
func (r *refusal) Error() string { return r.why }

// resultOf classifies what is wrong with a document.
func resultOf(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.result
	}
	switch {
	case errs.Is(err, errs.TooLarge):
		return TooLarge
	case errors.Is(err, status.ErrSchema):
		return Schema
	}
	return Malformed
}

func (p *poller) refuse(d document, err error) {
	result := resultOf(err)
	p.s.options.Count(result)
	p.s.notes.refused(d, result, err.Error(), p.s.options.Now().UTC())
	p.s.options.Log.Warn("a report is refused", "cluster", d.cluster, "repo", p.at.repo.URL, "commit", string(d.commit), "result", result, "err", err)
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
	rec := &record{seq: seq, at: at, told: map[appcontext.PairKey]told{}}
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
