package rsync

import (
	"context"
	"net/http"

	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// held reports whether edits of others are held on a branch.
func (h History) held(ctx context.Context, ask v2.GitBranch) (bool, error) {
	t := (&route.Resolver{DB: h.DB, Rules: h.Rules}).Lookup()
	for p, err := range h.Contexts.Pairs(ctx) {
		if err != nil {
			return false, err
		}
		if p.Edit == nil || !p.Edit.Held {
			continue
		}
		c, _, err := t.Cluster(ctx, p.Key.Cluster)
		if err != nil {
			continue // it is nowhere
		}
		s, err := t.Settings(ctx, p.Key.Cluster, c.Spec.GitOps)
		if err == nil && s.Repo.URL == ask.URL && s.Branch == ask.Branch {
			return true, nil
		}
	}
	return false, nil
}

// ruling is what an operator decides about edits that are held.
type ruling struct {
	branch v2.GitBranch
	keep   bool
}

// judge notes what was decided, unless that failed already.
func (h History) judge(w http.ResponseWriter, r *http.Request, v ruling, err error) error {
	if err != nil {
		return err
	}
	b, err := h.Contexts.Judge(r.Context(), v.branch.URL, v.branch.Branch, v.keep)
	if err != nil {
		return err
	}
	h.Log.Info("foreign edits decided about", "repo", b.URL, "branch", b.Name, "keep", v.keep, "actor", web.Actor(r.Context()))
	return web.JSON(w, http.StatusAccepted, shown(b))
}

// verdicts acts on what operators decide about edits that are held, until ctx ends.
func (d *dispatcher) verdicts(ctx context.Context) {
	for attempt := 1; ; {
		b, ok := d.git.branches.judged(ctx, d.shard)
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
	if err := d.git.branches.heeded(ctx, d.ledger.fence, at, b.Judged); err != nil {
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

// judged waits until somebody has decided about edits on a branch of a shard. It returns
// false when ctx ends.
func (b *branches) judged(ctx context.Context, shard int) (appcontext.Branch, bool) {
	return b.await(ctx, func(r appcontext.Branch) bool { return r.Judged > r.Heeded && shardOf(r) == shard })
}

// heeded remembers that a decision was acted on.
func (b *branches) heeded(ctx context.Context, own appcontext.Fence, at route.Branch, n int64) error {
	return b.change(ctx, own, at, func(r *appcontext.Branch) { r.Heeded = max(r.Heeded, n) })
}
