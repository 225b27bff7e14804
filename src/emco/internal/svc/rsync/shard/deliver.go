package shard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// Requeue puts targets into the queues that their routes name, unless they have nothing to
// deliver and need no watch. Pairs whose cluster has no route fail.
func (s *Shard) Requeue(ctx context.Context, due []pair.Target) {
	lookup, reading := s.Routes.DeliveryLookup(), readpoint.With(ctx)
	lookup.Prefetch(reading, pair.Clusters(due))
	var failed []pair.Result
	byQueue := map[string][]pair.Target{}
	for _, t := range due {
		r, err := s.routeOf(reading, lookup, t)
		if err != nil {
			failed = append(failed, s.noRoute(t, err)...)
			continue
		}
		s.guard.Track(t, r)
		role := r.Role(s.number)
		idle := r.Backend != nil && !s.pairs.HasDeliverable(t) // a direct cluster is watched too
		if role == route.Wait || role == route.Deliver && idle {
			continue
		}
		byQueue[r.QueueFor(role)] = append(byQueue[r.QueueFor(role)], t)
	}
	for key, targets := range byQueue {
		s.queues.Add(ctx, key, targets...)
	}
	s.Record(ctx, failed)
}

// deliverContained delivers, and fails all targets if that panics.
func (s *Shard) deliverContained(ctx context.Context, key string, due []pair.Target) {
	err := s.Panics.Do(contain.Rsync, key, func() error {
		s.deliver(ctx, key, due)
		return nil
	})
	if err == nil {
		return
	}
	var failed []pair.Result
	for _, t := range due {
		failed = append(failed, pair.Failures(s.pairs.Of(t), err)...)
	}
	s.Record(ctx, failed)
}

// deliver delivers the targets that are due in a queue, and records the results. Routes
// are looked up again: a target whose route has changed goes to its new queue.
func (s *Shard) deliver(ctx context.Context, key string, due []pair.Target) {
	reading := readpoint.With(ctx)
	mark := s.documentMark(reading) // before any document is read
	lookup, routes := s.Routes.DeliveryLookup(), map[pair.Target]route.Route{}
	lookup.Prefetch(reading, pair.Clusters(due))
	var viaGit, direct []pair.Target
	var failed []pair.Result
	moving := map[v2.ClusterKey]route.Route{} // by cluster
	for _, t := range due {
		r, err := s.routeOf(reading, lookup, t)
		if err != nil {
			failed = append(failed, s.noRoute(t, err)...)
			continue
		}
		routes[t] = r
		s.guard.Track(t, r)
		switch role := r.Role(s.number); {
		case role == route.Wait:
		case r.QueueFor(role) != key:
			s.queues.Add(ctx, r.QueueFor(role), t)
		case role != route.Deliver:
			moving[t.Cluster] = r
		case r.Backend != nil:
			viaGit = append(viaGit, t)
		default:
			direct = append(direct, t)
		}
	}
	s.Record(ctx, failed)
	s.mover.Work(ctx, moving)
	s.deliverGit(ctx, key, s.skipSteps(ctx, viaGit, true), routes, mark)
	now, later := s.directTurn(direct)
	for _, t := range s.skipSteps(ctx, now, false) {
		s.deliverDirect(s.cancellations.For(t.Deployment), t, routes[t], mark)
	}
	s.queues.Add(ctx, key, later...)
}

// maxDirect bounds the targets that a direct cluster's queue delivers before it looks again
// who else waits.
const maxDirect = 16

// directTurn splits the targets of a direct cluster into those that are delivered now and the
// rest. What never failed comes before what failed before, and projects take turns.
func (s *Shard) directTurn(due []pair.Target) (now, later []pair.Target) {
	if len(due) <= 1 {
		return due, nil
	}
	var fresh, tried []pair.Target
	for _, t := range due {
		if pair.Tried(s.pairs.Of(t)) {
			tried = append(tried, t)
		} else {
			fresh = append(fresh, t)
		}
	}
	all := append(fairshare.Turns(fresh, s.projectOf, s.Weight), fairshare.Turns(tried, s.projectOf, s.Weight)...)
	n := min(len(all), maxDirect)
	return all[:n], all[n:]
}

// projectOf returns the project of a target's deployment.
func (s *Shard) projectOf(t pair.Target) string {
	return store.Key(s.pairs.Document(t.Deployment)).Project()
}

// deliverGit delivers targets of one repository and branch. After each job it puts the remaining
// targets back if other deployments than theirs wait in the queue, so a change waits for one commit of other deployments at most. mark
// is from before their routes were read.
func (s *Shard) deliverGit(ctx context.Context, key string, targets []pair.Target, routes map[pair.Target]route.Route, mark int64) {
	if len(targets) == 0 {
		return
	}
	ended := s.noteWhenSlow(ctx, targets, routes[targets[0]].Settings.Repo.URL)
	defer ended()
	handle := func(results []pair.Result) {
		s.overlaps.note(ctx, results)
		s.Record(ctx, s.platforms.Register(ctx, results, routes))
		s.queues.Add(ctx, key, s.unreachable.Update(key, results)...)
		s.retryOvertaken(ctx, mark, results)
	}
	left := s.git.Deliver(ctx, targets, routes, handle, func(left []pair.Target) bool {
		return !s.queues.WaitingBeside(key, pair.Deployments(left))
	})
	s.queues.Add(ctx, key, left...)
}

// deliverDirect delivers a target to the API server of its cluster.
func (s *Shard) deliverDirect(ctx context.Context, t pair.Target, r route.Route, mark int64) {
	ended := s.noteWhenSlow(ctx, []pair.Target{t}, "the API server of "+string(t.Cluster))
	defer ended()
	results := s.kube.Deliver(ctx, t, r)
	s.overlaps.note(ctx, results)
	s.Record(ctx, results)
	s.retryOvertaken(ctx, mark, results)
	if s.kube.Defined(ctx, results) {
		s.retryFailed(ctx, t.Cluster) // a kind may be known now
	}
}

// routeOf returns a target's route, unless its pairs are meant for an earlier cluster of
// the same name. While the documents are away, it is not known which of the two is the earlier one.
func (s *Shard) routeOf(ctx context.Context, lookup *route.Lookup, t pair.Target) (route.Route, error) {
	r, err := lookup.Route(ctx, t.Cluster)
	if err == nil {
		err = s.pairs.CheckRegistration(t, r.Registration)
	}
	if err != nil && r.Recalled {
		err = errs.E(errs.Unavailable, "reach", string(t.Cluster), fmt.Errorf("the documents are away: %w", err))
	}
	return r, err
}

// noRoute returns the results for a target without a route. What must be removed from a
// cluster that is no longer registered is out of reach: it is forgotten. All else fails.
func (s *Shard) noRoute(t pair.Target, err error) (out []pair.Result) {
	for _, p := range s.pairs.Of(t) {
		switch {
		case p.Desired == "" && errs.Is(err, errs.NotFound):
			out = append(out, pair.Result{Key: p.Key})
		case pair.Deliverable(p):
			out = append(out, pair.Result{Key: p.Key, Bundle: p.Desired, Err: err})
		}
	}
	return out
}

// skipSteps moves targets past steps that need no delivery, and returns the targets. If
// that cannot be stored, it returns none and they are tried again.
func (s *Shard) skipSteps(ctx context.Context, targets []pair.Target, pulls bool) []pair.Target {
	err := s.pairs.SkipSteps(ctx, targets, pulls)
	if err == nil {
		return targets
	}
	if ctx.Err() == nil {
		s.Log.Warn("steps not checked; will retry", "err", err, "targets", len(targets))
	}
	for _, t := range targets {
		s.retries.Set(t, storeRetry.Backoff(1, err))
	}
	return nil
}

// recordTogether is how many results are recorded in one go. Results that give equal
// states need one transaction; if all differ, they need about a hundred.
const recordTogether = 12_800

// Record stores results, and sets the time of the next attempt where one is needed. It
// stores some at a time, each with its own deadline: on a slow store, what was stored
// stays so, and only the rest is delivered again.
func (s *Shard) Record(ctx context.Context, results []pair.Result) {
	if ctx.Err() != nil { // what failed did so because we are stopping
		results = slices.DeleteFunc(slices.Clone(results), func(r pair.Result) bool { return r.Err != nil })
	}
	for _, r := range results {
		if r.Err != nil {
			s.Log.Warn("delivery failed", "cluster", r.Key.Cluster, "deployment", r.Key.Deployment, "app", r.Key.App, "err", r.Err)
		}
	}
	if len(results) == 0 {
		return
	}
	unrecorded := map[pair.Target]error{}
	var err error
	for part := range slices.Chunk(results, recordTogether) {
		if err == nil || ctx.Err() == nil { // else we are stopping, and the store does not answer
			err = s.recordPart(ctx, part)
		}
		for _, t := range pair.TargetsOfResults(part) {
			if err != nil {
				unrecorded[t] = err
			}
		}
	}
	own, release := queue.WithGrace(ctx)
	defer release()
	for _, t := range pair.TargetsOfResults(results) {
		s.scheduleRetry(t, unrecorded[t])
		s.release(own, t)
	}
	s.writeEvents(own)
}

func (s *Shard) recordPart(ctx context.Context, results []pair.Result) error {
	own, release := queue.WithGrace(ctx)
	defer release()
	err := s.pairs.Record(own, results)
	if err != nil {
		s.Log.Warn("results not recorded; will deliver again", "err", err, "pairs", len(results))
	}
	return err
}

// scheduleRetry sets when a target is requeued: at the earliest NextRetry of its pairs, or soon
// if its results could not be recorded.
func (s *Shard) scheduleRetry(t pair.Target, unrecorded error) {
	if unrecorded != nil {
		s.retries.Set(t, storeRetry.Backoff(1, unrecorded))
		return
	}
	due := s.pairs.Deliverable(t)
	if len(due) == 0 {
		return
	}
	first := slices.MinFunc(due, func(a, b appcontext.Pair) int { return a.NextRetry.Compare(b.NextRetry) })
	s.retries.Set(t, pair.Wait(first, time.Now()))
}

// release forgets what is known of a target that has no pairs in this shard any longer.
func (s *Shard) release(ctx context.Context, t pair.Target) {
	if s.pairs.Has(t) {
		return
	}
	s.retries.Cancel(t)
	s.platforms.Forget(t)
	s.guard.Release(ctx, t)
}

// stopDeployment ends all work for a deployment, and starts none until the head asks for
// something else. Work is cancelled twice: some may start before the stop is written.
func (s *Shard) stopDeployment(ctx context.Context, deployment v2.DeploymentID) error {
	s.cancellations.Cancel(deployment)
	if err := s.pairs.Stop(ctx, deployment); err != nil {
		return err
	}
	s.cancellations.Cancel(deployment)
	for _, t := range s.pairs.TargetsOf(deployment) {
		s.retries.Cancel(t)
		s.platforms.Forget(t)
	}
	return nil
}
