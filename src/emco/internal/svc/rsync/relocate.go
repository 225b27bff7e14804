package rsync

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/events"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// A cluster that is moved to another place in Git takes along what it holds. Its
// registration names both places from the moment on in which the move is accepted; how far
// it is, is written down after each step.
//
//	asked ──► written ──► taken ──► done
//	   the shard of the      that of the new   the shard of the old
//	   old place: all        one: it has all   one: none of it is
//	   of it is in the       of its pairs      there any more
//	   new one
//
// Until it is written nobody else writes for the cluster in the new place: a branch of its
// own would show a part for the whole. That is done by the worker of the old place's lane,
// so no delivery to there that began before comes after. The old place stays until nobody
// reads it: at once where the cluster reads the same as before, else until an operator says
// that its reconciler follows. A reconciler that still reads a place which is cleared may
// remove all that it has applied from there.

// followMoves has the shard do its part of all moves, until ctx ends.
func (d *dispatcher) followMoves(ctx context.Context) {
	seen := map[string]string{}
	for ctx.Err() == nil {
		list, changed := d.moves.Underway()
		pending := false
		for _, r := range list {
			at := fmt.Sprint(r.Registration, r.Number, r.Stage, r.Finish)
			if seen[r.Cluster] == at {
				continue
			}
			seen[r.Cluster] = at
			if d.advance(ctx, r) {
				pending = true
				delete(seen, r.Cluster)
			}
		}
		d.await(ctx, changed, pending)
	}
}

// await waits for a change, or if somebody is waited for who tells nobody, for a while.
func (d *dispatcher) await(ctx context.Context, changed <-chan struct{}, pending bool) {
	var again <-chan time.Time
	if pending {
		timer := time.NewTimer(pair.FirstRetry)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-changed:
	case <-again:
	case <-ctx.Done():
	}
}

// advance does what can be done for a move now. It reports whether it has to be looked at again
// though nothing of it has changed.
func (d *dispatcher) advance(ctx context.Context, r appcontext.Relocation) (pending bool) {
	if r.Stage == appcontext.MoveLeft {
		return d.retire(ctx, r)
	}
	dest, err := d.gateway.Lookup().Route(ctx, r.Cluster)
	switch {
	case errs.Is(err, errs.NotFound):
		return false
	case err == nil && (dest.Move == nil || dest.Move.From.Backend == nil):
		return false
	case err == nil:
		pending, err = d.step(ctx, r, dest)
	}
	if err != nil && ctx.Err() == nil {
		d.log.Warn("a move does not go on; it is tried again", "cluster", r.Cluster, "err", err)
	}
	return pending || err != nil
}

// step does the shard's part of a move.
func (d *dispatcher) step(ctx context.Context, r appcontext.Relocation, dest route.Route) (pending bool, err error) {
	due := d.ledger.On(r.Cluster)
	d.dispatch(ctx, due) // in the lane of their place, or of the old one
	begins, ends := dest.Move.From.Shard() == d.shard, dest.Shard() == d.shard
	switch {
	case r.Stage == appcontext.MoveAsked && begins && len(due) == 0:
		return false, d.reached(ctx, r.Cluster, dest, appcontext.Relocation{Stage: appcontext.MoveWritten})
	case r.Stage == appcontext.MoveWritten && ends:
		all, err := d.welcome(ctx, r, dest)
		return !all, err
	case r.Stage == appcontext.MoveTaken && begins:
		return false, d.clearOut(ctx, r, dest)
	}
	return false, nil
}

// relocate does the shard's part of moving clusters, in the lane of their old place.
func (d *dispatcher) relocate(ctx context.Context, moving map[string]route.Route) {
	for cluster, dest := range moving {
		due := d.ledger.On(cluster)
		err := d.relocateOne(ctx, cluster, dest, due)
		if err == nil || ctx.Err() != nil {
			continue
		}
		d.log.Warn("a move does not go on; it is tried again", "cluster", cluster, "err", err)
		if noted := d.reached(ctx, cluster, dest, appcontext.Relocation{Stage: dest.Move.Stage, Error: err.Error()}); noted != nil {
			d.log.Warn("why a move does not go on is not written down", "cluster", cluster, "err", noted)
		}
		for _, t := range due {
			d.alarms.Set(t, d.ledger.Retry().Backoff(1, err))
		}
	}
}

func (d *dispatcher) relocateOne(ctx context.Context, cluster string, dest route.Route, due []pair.Target) error {
	if dest.Role(d.shard) == route.Carry {
		return d.carryOver(ctx, cluster, dest, due)
	}
	return d.passOn(ctx, cluster, dest, due)
}

// carryOver writes what a cluster holds in its new place.
func (d *dispatcher) carryOver(ctx context.Context, cluster string, dest route.Route, due []pair.Target) error {
	if err := d.complete(ctx, cluster); err != nil {
		return err
	}
	commit, err := d.git.carry(ctx, due, dest)
	if err != nil {
		return err
	}
	r := appcontext.Relocation{Stage: appcontext.MoveWritten, Written: string(commit)}
	for _, t := range due {
		r.Deployments = append(r.Deployments, t.UID)
	}
	return d.reached(ctx, cluster, dest, r)
}

// complete refuses as long as another shard has something of the cluster: it would be
// missing in the new place.
func (d *dispatcher) complete(ctx context.Context, cluster string) error {
	pairs, err := d.contexts.PairsOn(ctx, cluster)
	for _, p := range pairs {
		if p.Shard != d.ledger.Shard() && p.Applied != "" {
			return errs.E(errs.Unavailable, "move", cluster, fmt.Errorf("app %s is still in the hands of %s", p.Key.App, p.Shard))
		}
	}
	return err
}

// clearOut takes what a cluster held out of its old place, if nobody reads that.
func (d *dispatcher) clearOut(ctx context.Context, r appcontext.Relocation, dest route.Route) error {
	if !r.Finish && !dest.SameSource() {
		return d.reached(ctx, r.Cluster, dest, appcontext.Relocation{Stage: r.Stage, Error: unread(dest)})
	}
	d.still.Lock() // else a view might be shown the place that is emptied
	defer d.still.Unlock()
	old := make([]pair.Target, len(r.Deployments))
	for i, uid := range r.Deployments {
		old[i] = pair.Target{Cluster: r.Cluster, UID: uid}
	}
	commit, err := d.git.clear(ctx, old, dest)
	if err == nil {
		err = d.release(ctx, old, dest)
	}
	if err != nil {
		if noted := d.reached(ctx, r.Cluster, dest, appcontext.Relocation{Stage: r.Stage, Error: err.Error()}); noted != nil {
			return noted
		}
		return err
	}
	if err := d.reached(ctx, r.Cluster, dest, appcontext.Relocation{Stage: appcontext.MoveDone, Cleared: string(commit)}); err != nil {
		return err
	}
	d.log.Info("a cluster was moved", "cluster", r.Cluster, "from", dest.Move.From.Place(), "to", dest.Place())
	return nil
}

// unread says what a move waits for whose old place may still be read.
func unread(d route.Route) string {
	return "its old place stays until its reconciler reads branch " + d.Settings.ReadBranch() + "; when it does, finish the move (emcoctl move --finish)"
}

// release has the platform of the old place forget the targets, if it has to be told and
// the new one is another.
func (d *dispatcher) release(ctx context.Context, old []pair.Target, dest route.Route) error {
	from := dest.Move.From
	b := syncer.Bootstrapping(from.Backend)
	if b == nil || from.Settings.Kind == dest.Settings.Kind {
		return nil
	}
	for _, t := range old {
		if err := b.Release(ctx, d.ledger.Address(t, from)); err != nil {
			return err
		}
	}
	return nil
}

// passOn hands the shard's pairs on a cluster over to the shard of its new place.
func (d *dispatcher) passOn(ctx context.Context, cluster string, dest route.Route, due []pair.Target) error {
	r, err := d.moves.Of(ctx, cluster)
	if err != nil || len(due) == 0 {
		return err
	}
	if r.Stage != appcontext.MoveWritten { // these come late: they are to be taken in as well
		r.Stage = appcontext.MoveWritten
		if _, err := d.contexts.PutRelocation(ctx, d.ledger.Fence(), r); err != nil {
			return err
		}
	}
	if err := d.ledger.HandOver(ctx, due, d.handing(r, dest)); err != nil {
		return err
	}
	for _, t := range due {
		d.alarms.Cancel(t)
		d.vacate(ctx, t)
	}
	return nil
}

// handing is how pairs get to the shard of a new place.
func (d *dispatcher) handing(r appcontext.Relocation, dest route.Route) pairs.Handover {
	return pairs.Handover{To: route.Group.Shard(dest.Shard()), Commit: r.Written, Before: r.At, Redeliver: syncer.Bootstrapping(dest.Backend) != nil}
}

// welcome takes in what other shards have handed over. It reports whether that is all.
func (d *dispatcher) welcome(ctx context.Context, r appcontext.Relocation, dest route.Route) (all bool, err error) {
	pairs, err := d.contexts.PairsOn(ctx, r.Cluster)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(pairs, func(p appcontext.Pair) bool { return p.Shard != d.ledger.Shard() }) {
		return false, nil
	}
	d.ledger.TakeOver(pairs)
	if dest.Move.From.Shard() == d.shard { // they were its own all the time
		if err := d.ledger.HandOver(ctx, d.ledger.On(r.Cluster), d.handing(r, dest)); err != nil {
			return false, err
		}
	}
	if err := d.reached(ctx, r.Cluster, dest, appcontext.Relocation{Stage: appcontext.MoveTaken}); err != nil {
		return false, err
	}
	d.arrived(ctx, r.Cluster, dest)
	return true, nil
}

// arrived tells of a cluster that is in its new place, and sees to what was asked for meanwhile.
func (d *dispatcher) arrived(ctx context.Context, cluster string, dest route.Route) {
	due := d.ledger.On(cluster)
	var moved []appcontext.Event
	var orphans []pair.Target
	for _, t := range due {
		heads := d.about(t.UID)
		for _, uid := range heads {
			d.revisit(uid)
			moved = append(moved, appcontext.Event{
				UID: uid, Type: appcontext.Normal, Reason: "Moved", Cluster: cluster,
				Message: fmt.Sprintf("cluster %s moved from %s to %s, with all that is on it", cluster, dest.Move.From.Place(), dest.Place()),
			})
		}
		if len(heads) == 0 {
			orphans = append(orphans, t)
		}
	}
	d.dispatch(ctx, orphans)
	if err := d.contexts.AddEvents(ctx, moved[:min(len(moved), events.MaxPerBatch)]...); err != nil && ctx.Err() == nil {
		d.log.Warn("events not written", "err", err, "events", len(moved))
	}
}

// reached writes down how far a move is.
func (d *dispatcher) reached(ctx context.Context, cluster string, dest route.Route, r appcontext.Relocation) error {
	r.Cluster, r.Registration, r.Number = cluster, dest.Registration, dest.Move.Number
	own, release := queue.WithGrace(ctx)
	defer release()
	return d.moves.Advance(own, d.ledger.Fence(), r)
}
