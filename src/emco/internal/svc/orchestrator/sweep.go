package orchestrator

import (
	"context"
	"errors"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	keptRevisions = 10 // newest revisions of a deployment that Sweep keeps; users can roll back to them
	sweepPeriod   = 20 * time.Minute
	sweepSoon     = time.Minute // the usual first sweep after the start, and the next one while content waits for it
	sweepShare    = 20          // a sweep takes at most one part of this many of the time
	heldSweeps    = 30          // consecutive sweeps that may leave content to an operation without a warning
)

// runSweep periodically removes what is no longer referenced. Content goes in two sweeps, so the
// second one follows soon.
func (w *Worker) runSweep(ctx context.Context, _ int, own *shards.Ownership) error {
	contexts, wait := w.contexts.Fenced(own.Fence()), w.firstSweep
	for held := 0; pause.For(ctx, wait) == nil; {
		start := time.Now()
		if err := contexts.SweepAgents(ctx, w.isRegistered); err != nil {
			w.log.Warn("cannot sweep agents", "err", err)
		}
		swept, err := contexts.Sweep(ctx, keptRevisions)
		took := time.Since(start)
		wait = sweepPeriod
		switch {
		case errors.Is(err, appcontext.ErrFenced):
			return err
		case err != nil:
			w.log.Warn("cannot sweep the AppContext; it grows until a sweep succeeds", "err", err)
		case swept.Unused+swept.Held > 0:
			wait = sweepSoon
		}
		if held++; swept.Held == 0 {
			held = 0
		} else if held%heldSweeps == 0 {
			w.log.Warn("unused content stays in the AppContext: an operation has waited for long", "contents", swept.Held, "sweeps", held)
		}
		w.log.Debug("AppContext swept", "removed", swept.Removed, "unused", swept.Unused, "held", swept.Held, "took", took)
		wait = max(wait, sweepShare*took)
	}
	return ctx.Err()
}

// isRegistered reports whether a cluster is registered.
func (w *Worker) isRegistered(ctx context.Context, cluster v2.ClusterKey) (bool, error) {
	if !cluster.Valid() { // no registration has such a name
		return false, nil
	}
	_, err := w.db.Get(ctx, store.Key(cluster.StoreKey()))
	if errs.Is(err, errs.NotFound) {
		return false, nil
	}
	return err == nil, err
}
