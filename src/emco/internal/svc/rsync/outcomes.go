package rsync

import (
	"context"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// recordedAtOnce is how many outcomes are recorded before others may look at the ledger:
// some ten transactions.
const recordedAtOnce = 1280

// unfound says what becomes of pairs whose cluster cannot be found. If the cluster is
// not registered any more, what was to be removed from it is out of reach and forgotten,
// however far the removal was; all else fails.
func unfound(pairs []appcontext.Pair, err error) []pair.Result {
	var out []pair.Result
	for _, p := range pairs {
		switch {
		case p.Desired == "" && errs.Is(err, errs.NotFound):
			out = append(out, pair.Result{Key: p.Key})
		case pair.Deliverable(p):
			out = append(out, pair.Result{Key: p.Key, Bundle: p.Desired, Err: err})
		}
	}
	return out
}

// settle records outcomes, and sets the time for another try where one is needed. They
// are recorded some at a time, each with its own deadline: of many, on a store that is
// slow, those that were recorded stay so, and the others alone are worked out again.
func (d *dispatcher) settle(ctx context.Context, outcomes []pair.Result) {
	outcomes = d.withoutStop(ctx, outcomes)
	if len(outcomes) == 0 {
		return
	}
	failed := map[pair.Target]error{}
	var err error
	for some := range slices.Chunk(outcomes, recordedAtOnce) {
		if err == nil || ctx.Err() == nil { // else this process ends, and the store does not answer
			err = d.record(ctx, some)
		}
		for _, t := range touched(some) {
			if err != nil {
				failed[t] = err
			}
		}
	}
	own, release := queue.WithGrace(ctx)
	defer release()
	for _, t := range touched(outcomes) {
		d.schedule(t, failed[t])
		d.vacate(own, t)
	}
	d.tell(own)
}

// record records outcomes.
func (d *dispatcher) record(ctx context.Context, outcomes []pair.Result) error {
	own, release := queue.WithGrace(ctx)
	defer release()
	err := d.ledger.Record(own, outcomes)
	if err != nil {
		d.log.Warn("outcomes not recorded; they are worked out again", "err", err, "pairs", len(outcomes))
	}
	return err
}

// vacate forgets a target that is gone.
func (d *dispatcher) vacate(ctx context.Context, t pair.Target) {
	if len(d.ledger.Of(t)) > 0 {
		return
	}
	d.platforms.Forget(t)
	d.guard.Release(ctx, t)
}

// recordCommit stores which commits carried a revision.
func (d *dispatcher) recordCommit(ctx context.Context, head string, rev int64, c ...appcontext.RevisionCommit) error {
	err := d.contexts.RecordCommit(ctx, head, rev, c...)
	if err != nil && !errs.Is(err, errs.NotFound) { // a revision that is gone needs no commits
		d.log.Warn("commits not recorded", "deployment", head, "rev", rev, "commits", len(c), "err", err)
	}
	return err
}

// withoutStop drops failures that are only due to our own stopping.
func (d *dispatcher) withoutStop(ctx context.Context, in []pair.Result) (out []pair.Result) {
	for _, o := range in {
		if o.Err != nil && ctx.Err() != nil {
			continue
		}
		if o.Err != nil {
			d.log.Warn("pair not settled", "cluster", o.Key.Cluster, "deployment", o.Key.UID, "app", o.Key.App, "err", o.Err)
		}
		out = append(out, o)
	}
	return out
}

// schedule sets the target's alarm for the first of its pairs that has to be worked on.
func (d *dispatcher) schedule(t pair.Target, unrecorded error) {
	if unrecorded != nil {
		d.alarms.Set(t, storeRetry().Backoff(1, unrecorded))
		return
	}
	due := pair.AllDeliverable(d.ledger.Of(t))
	if len(due) == 0 {
		return
	}
	first := slices.MinFunc(due, func(a, b appcontext.Pair) int { return a.NextRetry.Compare(b.NextRetry) })
	d.alarms.Set(t, time.Until(first.NextRetry))
}

func touched(outcomes []pair.Result) []pair.Target {
	pairs := make([]appcontext.Pair, len(outcomes))
	for i, o := range outcomes {
		pairs[i].Key = o.Key
	}
	return pair.TargetsOf(pairs)
}
