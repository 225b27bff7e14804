package rsync

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
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
	if err := d.ledger.judge(ctx, targets, b.Keep); err != nil {
		return err
	}
	if err := d.git.branches.SetResolved(ctx, d.ledger.fence, at, b.Judged); err != nil {
		return err
	}
	d.dispatch(ctx, targets)
	return nil
}

// judge ends that edits are held: with keep they stay until the next delivery, else they are
// written over.
func (l *ledger) judge(ctx context.Context, targets []pair.Target, keep bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var put []appcontext.Pair
	for _, t := range targets {
		for _, p := range l.pairs[t] {
			if p.Edit != nil && p.Edit.Held || p.Reason == pair.ExternalEdit {
				put = append(put, released(p, keep))
			}
		}
	}
	return l.write(ctx, entry{put: put})
}

// released is a pair whose edit is held no more.
func released(p appcontext.Pair, keep bool) appcontext.Pair {
	if p.Edit != nil {
		e := *p.Edit
		e.Kept, e.Held = keep && e.Held, false
		p.Edit = &e
	}
	p = pair.Reset(p)
	if keep && p.Change == "" && p.Desired == p.Applied {
		p.Phase, p.From = appcontext.Applied, ""
	}
	return p
}
