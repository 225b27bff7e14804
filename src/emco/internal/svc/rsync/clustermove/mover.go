// Package clustermove moves clusters to other places in Git with everything that they hold,
// and removes the branches of clusters that were deregistered.
//
// The registration of a cluster names the old and the new place from the moment when a
// move is accepted. The stage that the move has reached is stored after each step:
//
//	asked ──────────────► written ─────────────► taken ──────────────► done
//	  the shard of the      that of the new        the shard of the
//	  old place writes      place takes over       old place clears
//	  all to the new one    all of the pairs       the old place
//
// Before the stage is written, no other shard writes for the cluster to the new place: the
// cluster's own branch would show a part as the whole. The worker of the old place's queue
// writes everything to the new place, so it comes after deliveries to the old place that began earlier.
//
// The old place is cleared when nothing reads it any longer: at once if the cluster reads
// the same branch and layout as before, otherwise after an operator has confirmed that the
// cluster's reconciler has followed. A reconciler that reads a place which is being cleared
// could remove everything that it has applied from there.
package clustermove

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Options are what a mover works with.
type Options struct {
	Shard    int
	Fence    appcontext.Fence
	Store    Store
	Routes   *route.Resolver
	Pairs    Pairs
	Progress *Progress
	Git      GitWriter
	Retry    pair.Retry // of moves that fail

	HoldRepairs  func() (release func()) // delays repairs of derived branches
	HeadsOf      func(deployment v2.DeploymentID) []appcontext.HeadID
	Recheck      func(head appcontext.HeadID) // compares again everything that a head wants
	Requeue      func(ctx context.Context, targets []pair.Target)
	RequeueAfter func(t pair.Target, d time.Duration)
	Release      func(ctx context.Context, t pair.Target) // the shard no longer has the target
	Log          *slog.Logger
}

// Store is what a mover needs of the AppContext.
type Store interface {
	PairsOn(ctx context.Context, cluster v2.ClusterKey) ([]appcontext.Pair, error)
	PutRelocation(ctx context.Context, own appcontext.Fence, r gitstate.Relocation) (gitstate.Relocation, error)
	DropRelocation(ctx context.Context, own appcontext.Fence, r gitstate.Relocation) error
	AddEvents(ctx context.Context, events ...appcontext.Event) error
}

// Pairs are the pairs of the shard.
type Pairs interface {
	Of(t pair.Target) []appcontext.Pair
	On(cluster v2.ClusterKey) []pair.Target // in order
	Address(t pair.Target, r route.Route) syncer.Target
	HandOver(ctx context.Context, targets []pair.Target, h pairs.Handover) error
	TakeOver(handedOver []appcontext.Pair)
}

// GitWriter writes to places in Git.
type GitWriter interface {
	Carry(ctx context.Context, due []pair.Target, r route.Route) (git.Hash, error)
	Clear(ctx context.Context, old []pair.Target, r route.Route) (git.Hash, error)
	Submit(ctx context.Context, job batch.Job) (git.DerivedResult, git.Hash, error)
}

// Mover does a shard's part of all moves. It has no state of its own.
type Mover struct{ Options }

// New returns a mover.
func New(o Options) *Mover { return &Mover{o} }

// Run does the shard's part of moves whenever the progress of one changes, until ctx ends.
// What waits for other shards, or failed, is tried again after a while.
func (m *Mover) Run(ctx context.Context) {
	done := map[v2.ClusterKey]string{} // by cluster: how far the shard's part is done
	for ctx.Err() == nil {
		moves, changed := m.Progress.Underway()
		var retry <-chan time.Time
		for _, r := range moves {
			progress := fmt.Sprint(r.Registration, r.Number, r.Stage, r.Finish)
			if done[r.Cluster] == progress {
				continue
			}
			if m.advance(ctx, r) {
				delete(done, r.Cluster)
				retry = time.After(pair.FirstRetry)
			} else {
				done[r.Cluster] = progress
			}
		}
		select {
		case <-changed:
		case <-retry:
		case <-ctx.Done():
		}
	}
}

// advance does what can be done for a move now. It reports whether to try again without a
// change of its progress.
func (m *Mover) advance(ctx context.Context, r gitstate.Relocation) (again bool) {
	if r.Stage == gitstate.MoveLeft {
		return m.removeLeftBranch(ctx, r)
	}
	to, err := m.Routes.Lookup().Route(ctx, r.Cluster)
	switch {
	case errs.Is(err, errs.NotFound):
		return false
	case err == nil && (to.Move == nil || to.Move.From.Backend == nil):
		return false
	case err == nil && to.Move.Number < r.Number: // the move was aborted, and the registration is about to lead back
		return true
	case err == nil:
		again, err = m.step(ctx, r, to)
	}
	if err != nil && ctx.Err() == nil {
		m.Log.Warn("retrying a move", "cluster", r.Cluster, "err", err)
	}
	return again || err != nil
}

// step does the shard's part of a move. What has to be done in a queue is requeued, see Work.
func (m *Mover) step(ctx context.Context, r gitstate.Relocation, to route.Route) (again bool, err error) {
	targets := m.Pairs.On(r.Cluster)
	m.Requeue(ctx, targets)
	oldPlace, newPlace := to.Move.From.Shard() == m.Shard, to.Shard() == m.Shard
	switch {
	case r.Stage == gitstate.MoveAsked && oldPlace && len(targets) == 0:
		return false, m.reached(ctx, to, gitstate.Relocation{Stage: gitstate.MoveWritten})
	case r.Stage == gitstate.MoveWritten && newPlace:
		all, err := m.takeOver(ctx, r, to)
		return !all, err
	case r.Stage == gitstate.MoveTaken && oldPlace:
		return false, m.clear(ctx, r, to)
	}
	return false, nil
}

// Work does the shard's part of moving clusters that belongs into the queue of the old
// place: it carries what a cluster holds to the new place, or hands its pairs over.
func (m *Mover) Work(ctx context.Context, moving map[v2.ClusterKey]route.Route) {
	for cluster, to := range moving {
		targets := m.Pairs.On(cluster)
		var err error
		if to.Role(m.Shard) == route.Carry {
			err = m.carry(ctx, to, targets)
		} else {
			err = m.handOver(ctx, to, targets)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		m.Log.Warn("retrying a move", "cluster", cluster, "err", err)
		m.reportError(ctx, to, to.Move.Stage, err)
		for _, t := range targets {
			m.RequeueAfter(t, m.Retry.Backoff(1, err))
		}
	}
}

// carry writes what a cluster holds to its new place. While another shard still has
// something on the cluster, it refuses: that would be missing in the new place.
func (m *Mover) carry(ctx context.Context, to route.Route, targets []pair.Target) error {
	cluster := to.Move.Cluster
	stored, err := m.Store.PairsOn(ctx, cluster)
	if err != nil {
		return err
	}
	for _, p := range stored {
		if p.Shard != route.Group.Shard(m.Shard) && p.Applied != "" {
			return errs.E(errs.Unavailable, "move", string(cluster), fmt.Errorf("shard %s still has app %s", p.Shard, p.Key.App))
		}
	}
	commit, err := m.Git.Carry(ctx, targets, to)
	if err != nil {
		return err
	}
	next := gitstate.Relocation{Stage: gitstate.MoveWritten, Written: string(commit)}
	for _, t := range targets {
		next.Deployments = append(next.Deployments, t.Deployment)
	}
	return m.reached(ctx, to, next)
}

// handOver hands the shard's pairs on a cluster over to the shard of the new place.
func (m *Mover) handOver(ctx context.Context, to route.Route, targets []pair.Target) error {
	r, err := m.Progress.Of(ctx, to.Move.Cluster)
	if err != nil || len(targets) == 0 {
		return err
	}
	if r.Stage != gitstate.MoveWritten { // the new shard has taken over others already; it must do so again
		r.Stage = gitstate.MoveWritten
		if _, err := m.Store.PutRelocation(ctx, m.Fence, r); err != nil {
			return err
		}
	}
	if err := m.Pairs.HandOver(ctx, targets, handover(r, to)); err != nil {
		return err
	}
	for _, t := range targets {
		m.Release(ctx, t)
	}
	return nil
}

// handover is how pairs change on their way to the shard of the new place.
func handover(r gitstate.Relocation, to route.Route) pairs.Handover {
	return pairs.Handover{To: route.Group.Shard(to.Shard()), Commit: r.Written, Before: r.At, Redeliver: syncer.Bootstrapping(to.Backend) != nil}
}

// takeOver takes over the pairs that other shards have handed over. It reports whether
// these are all pairs of the cluster.
func (m *Mover) takeOver(ctx context.Context, r gitstate.Relocation, to route.Route) (all bool, err error) {
	stored, err := m.Store.PairsOn(ctx, r.Cluster)
	if err != nil {
		return false, err
	}
	own := route.Group.Shard(m.Shard)
	if slices.ContainsFunc(stored, func(p appcontext.Pair) bool { return p.Shard != own }) {
		return false, nil
	}
	m.Pairs.TakeOver(stored)
	if to.Move.From.Shard() == m.Shard { // no handover changed its own pairs
		if err := m.Pairs.HandOver(ctx, m.Pairs.On(r.Cluster), handover(r, to)); err != nil {
			return false, err
		}
	}
	next := gitstate.Relocation{Stage: gitstate.MoveTaken}
	if len(r.Deployments) == 0 { // the old place belongs to a move that was aborted; what it had written there must go too
		for _, t := range m.Pairs.On(r.Cluster) {
			next.Deployments = append(next.Deployments, t.Deployment)
		}
	}
	if err := m.reached(ctx, to, next); err != nil {
		return false, err
	}
	m.resume(ctx, to)
	return true, nil
}

// maxEvents bounds the events of one move.
const maxEvents = 20

// resume has everything on a moved cluster compared again, and writes events.
func (m *Mover) resume(ctx context.Context, to route.Route) {
	var events []appcontext.Event
	var orphans []pair.Target // of deployments without a head
	for _, t := range m.Pairs.On(to.Move.Cluster) {
		heads := m.HeadsOf(t.Deployment)
		for _, head := range heads {
			m.Recheck(head)
			events = append(events, appcontext.Event{
				UID: head, Type: appcontext.Normal, Reason: v2.EventReasonMoved, Cluster: t.Cluster,
				Message: fmt.Sprintf("cluster %s moved from %s to %s, with everything on it", t.Cluster, to.Move.From.Place(), to.Place()),
			})
		}
		if len(heads) == 0 {
			orphans = append(orphans, t)
		}
	}
	m.Requeue(ctx, orphans)
	if err := m.Store.AddEvents(ctx, events[:min(len(events), maxEvents)]...); err != nil && ctx.Err() == nil {
		m.Log.Warn("events not written", "err", err, "events", len(events))
	}
}

// clear removes what a cluster held from its old place when nothing reads that any longer.
func (m *Mover) clear(ctx context.Context, r gitstate.Relocation, to route.Route) error {
	if !r.Finish && !to.SameSource() {
		return m.reached(ctx, to, gitstate.Relocation{Stage: r.Stage, Error: "its old place stays until its reconciler reads branch " + to.Settings.ReadBranch() + "; when it does, finish the move (emcoctl move --finish)"})
	}
	defer m.HoldRepairs()()
	old := make([]pair.Target, len(r.Deployments))
	for i, deployment := range r.Deployments {
		old[i] = pair.Target{Cluster: r.Cluster, Deployment: deployment}
	}
	commit, err := m.Git.Clear(ctx, old, to)
	if err == nil {
		err = m.releasePlatform(ctx, old, to)
	}
	if err != nil {
		return errors.Join(err, m.reportError(ctx, to, r.Stage, err))
	}
	if err := m.reached(ctx, to, gitstate.Relocation{Stage: gitstate.MoveDone, Cleared: string(commit)}); err != nil {
		return err
	}
	m.Log.Info("a cluster was moved", "cluster", r.Cluster, "from", to.Move.From.Place(), "to", to.Place())
	return nil
}

// releasePlatform releases targets from the platform of the old place, if it has one and
// the new place has another.
func (m *Mover) releasePlatform(ctx context.Context, old []pair.Target, to route.Route) error {
	from := to.Move.From
	platform := syncer.Bootstrapping(from.Backend)
	if platform == nil || from.Settings.Kind == to.Settings.Kind {
		return nil
	}
	for _, t := range old {
		if err := platform.Release(ctx, m.Pairs.Address(t, from)); err != nil {
			return err
		}
	}
	return nil
}

// reportError stores why a move does not go on.
func (m *Mover) reportError(ctx context.Context, to route.Route, stage gitstate.MoveStage, why error) error {
	err := m.reached(ctx, to, gitstate.Relocation{Stage: stage, Error: why.Error()})
	if err != nil {
		m.Log.Warn("the error of a move was not stored", "cluster", to.Move.Cluster, "err", err)
	}
	return err
}

// reached stores the stage of a move.
func (m *Mover) reached(ctx context.Context, to route.Route, r gitstate.Relocation) error {
	r.Cluster, r.Registration, r.Number = to.Move.Cluster, to.Registration, to.Move.Number
	ctx, release := queue.WithGrace(ctx)
	defer release()
	return m.Progress.Advance(ctx, m.Fence, r)
}
