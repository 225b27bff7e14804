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
	if err := d.ledger.renew(ctx, targets); err != nil {
		return err
	}
	if err := d.git.branches.SetRenewed(ctx, d.ledger.fence, at, b.Adopted); err != nil {
		return err
	}
	d.log.Info("all that is desired is written anew", "repo", b.URL, "branch", b.Name, "targets", len(targets))
	d.dispatch(ctx, targets)
	return nil
}

// on returns the shard's targets on a branch.
func (d *dispatcher) on(ctx context.Context, at route.Branch) (out []pair.Target, err error) {
	trip := d.gateway.Lookup()
	for _, t := range d.ledger.all() {
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

// renew makes the pairs of targets due: those that are settled as if they were not, others
// as if their step had not been delivered. Those that wait for something else than the
// clusters' reports go on waiting.
func (l *ledger) renew(ctx context.Context, targets []pair.Target) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var put []appcontext.Pair
	for _, t := range targets {
		for _, p := range l.pairs[t] {
			switch {
			case p.Phase == appcontext.Applied:
				p.From, p.At = p.Desired, l.now()
			case p.Halted, pair.AtGate(p), p.Blocked == pair.Stopped:
				continue
			}
			p.Sent = false
			put = append(put, pair.Reset(p))
		}
	}
	return l.write(ctx, entry{put: put})
}
