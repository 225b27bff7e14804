package rsync

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// verdicts acts on what operators decide about edits that are held, until ctx ends.
func (d *dispatcher) verdicts(ctx context.Context) {
	for attempt := 1; ; {
		b, ok := d.git.branches.AwaitResolution(ctx, d.shard)
		if !ok {
			return
		}
		err := d.heedVerdict(ctx, b)
		if err == nil {
			attempt = 1
			continue
		}
		if ctx.Err() == nil {
			d.log.Warn("what was decided about foreign edits is not done yet", "repo", b.URL, "branch", b.Name, "err", err)
		}
		queue.Pause(ctx, storeRetry().Backoff(attempt, err))
		attempt++
	}
}

func (d *dispatcher) heedVerdict(ctx context.Context, b appcontext.Branch) error {
	at := route.Branch{URL: b.URL, Name: b.Name}
	targets, err := d.on(ctx, at)
	if err != nil {
		return err
	}
	if err := d.ledger.ResolveEdits(ctx, targets, b.Keep); err != nil {
		return err
	}
	if err := d.git.branches.SetResolved(ctx, d.ledger.Fence(), at, b.Judged); err != nil {
		return err
	}
	d.dispatch(ctx, targets)
	return nil
}
