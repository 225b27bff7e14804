package rsync

import (
	"context"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// renewals has all that is desired on a branch written anew when its history was adopted,
// until ctx ends.
func (d *dispatcher) renewals(ctx context.Context) {
	for attempt := 1; ; {
		b, ok := d.git.branches.AwaitAdopted(ctx, d.shard)
		if !ok {
			return
		}
		err := d.renew(ctx, b)
		if err == nil {
			attempt = 1
			continue
		}
		if ctx.Err() == nil {
			d.log.Warn("an adopted branch is not written anew yet", "repo", b.URL, "branch", b.Name, "err", err)
		}
		queue.Pause(ctx, storeRetry().Backoff(attempt, err))
		attempt++
	}
}

// renew makes all that is on a branch due. That is written down before it is noted that
// it was, so a crash in between makes it due twice.
func (d *dispatcher) renew(ctx context.Context, b appcontext.Branch) error {
	at := route.Branch{URL: b.URL, Name: b.Name}
	targets, err := d.on(ctx, at)
	if err != nil {
		return err
	}
	if err := d.ledger.MarkUndelivered(ctx, targets); err != nil {
		return err
	}
	if err := d.git.branches.SetRenewed(ctx, d.ledger.Fence(), at, b.Adopted); err != nil {
		return err
	}
	d.log.Info("all that is desired is written anew", "repo", b.URL, "branch", b.Name, "targets", len(targets))
	d.dispatch(ctx, targets)
	return nil
}

// on returns the shard's targets on a branch.
func (d *dispatcher) on(ctx context.Context, at route.Branch) (out []pair.Target, err error) {
	trip := d.gateway.Lookup()
	for _, t := range d.ledger.All() {
		dest, err := trip.Route(ctx, t.Cluster)
		switch {
		case errs.Is(err, errs.NotFound), errs.Is(err, errs.Invalid): // it is nowhere
		case err != nil:
			return nil, err
		case dest.Backend != nil && at == dest.Branch():
			out = append(out, t)
		}
	}
	return out, nil
}
