package shard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/gate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// storeRetry determines when reads and writes of our own stores are tried again.
var storeRetry = pair.Retry{First: pair.FirstRetry, Longest: time.Minute}

// headAttempts is how often a head is tried before the term of its shard ends.
const headAttempts = 6

// awayPause is how long a head waits until it asks again for documents that are away.
const awayPause = 5 * time.Second

// headState is all of a head that decides what the shard does. If it is the same as
// before, nothing is new.
type headState struct {
	rev     int64
	removed bool // nothing is desired
	stopped bool
	owned   bool // the head owns its deployment

	promoted   appcontext.Promotion // of rev
	terminated time.Time            // of what is removed: time of the last terminate
}

// reconciled is how far the shard has reconciled a head: which pairs it has written. Whether
// they were delivered is in the pairs.
type reconciled struct {
	state headState
	rev   int64 // the revision whose pairs were all written in this term; 0 if none
	mark  int64 // of the document store, from before the revision's clusters were read
}

// headReconciler writes the pairs that heads ask for. Only the goroutine of run uses it. Others may call recheckWhole and
// stopTimers. The timers of orphans and waiting fire in goroutines of their own.
type headReconciler struct {
	Shared
	number   int               // of the shard
	contexts *appcontext.Store // with the shard's fence
	pairs    *pairs.Store
	stop     func(ctx context.Context, deployment v2.DeploymentID) error // ends all deliveries of a deployment
	proceed  func(ctx context.Context, due []pair.Target)                // requeues targets and stores events
	caughtUp func()                                                      // called when the heads of the start are reconciled

	atOnce     int           // clusters of a change that are written before their targets are requeued
	awayPause  time.Duration // see the constant
	live       bool          // the heads of the start are reconciled
	owners     *deploymentOwners
	reconciled map[appcontext.HeadID]reconciled // by head
	rechecks   rechecks                         // locks itself
	orphans    *orphanSweep
	waiting    *queue.Timers[appcontext.HeadID] // heads that wait for the documents, and when they ask again
}

// newHeadReconciler returns the reconciler of s; s.pairs must be set.
func newHeadReconciler(s *Shard, caughtUp func()) *headReconciler {
	r := &headReconciler{
		Shared: s.Shared, number: s.number, contexts: s.contexts, pairs: s.pairs, stop: s.stopDeployment, proceed: s.proceed, caughtUp: caughtUp,
		atOnce: writtenAtOnce, awayPause: awayPause, owners: newDeploymentOwners(), reconciled: map[appcontext.HeadID]reconciled{},
	}
	r.waiting = queue.NewTimers(r.Heads.Recheck)
	r.orphans = newOrphanSweep(r.number, r.Alone, func(id appcontext.HeadID) { r.recheck(id, recheck{claim: true}) })
	return r
}

// run reconciles every head, then requeues whatever is due, then reconciles every
// change. It ends with ctx, or when the shard can no longer write.
func (r *headReconciler) run(ctx context.Context) error {
	for e, err := range r.Heads.WatchHeads(ctx) {
		switch {
		case err != nil:
			r.Log.Error("head not readable", "deployment", e.Head.UID, "err", err)
		case e.Synced:
			if err := r.pairs.RecheckReports(ctx); err != nil {
				return err
			}
			r.proceed(ctx, r.pairs.All()) // also watches the clusters that hold something
			r.caughtUp()
			r.live = true
		default:
			if err := r.handleHead(ctx, e); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// stopTimers stops the timers and waits for running ones.
func (r *headReconciler) stopTimers() {
	r.orphans.timer.Stop()
	r.waiting.Stop()
}

// recheckWhole has the shard compare everything that a head wants with its pairs.
func (r *headReconciler) recheckWhole(id appcontext.HeadID) { r.recheck(id, recheck{whole: true}) }

// recheck has a head reconciled again although it has not changed.
func (r *headReconciler) recheck(id appcontext.HeadID, why recheck) {
	r.rechecks.add(id, why)
	r.Heads.Recheck(id)
}

// handleHead reconciles a head and requeues the targets that must change. It tries again while
// a store is unreachable. After headAttempts it returns the error, which ends the shard's term; the
// next term begins with all heads.
//
// While the documents are away the term goes on, because what is desired already is delivered (ADR 0083): the
// head waits and others follow. At the start handleHead itself waits, because what is stored may be
// what the head no longer wants.
func (r *headReconciler) handleHead(ctx context.Context, e appcontext.HeadEvent) error {
	for attempt := 1; ; attempt++ {
		var due []pair.Target
		err := r.Panics.Do(contain.Rsync, "deployment "+string(e.Head.UID), func() (err error) {
			due, err = r.reconcileHead(ctx, e)
			return err
		})
		switch {
		case contain.Is(err): // the next change of the head is tried again
			delete(r.reconciled, e.Head.UID)
			return nil
		case err == nil:
			r.proceed(ctx, due)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errs.Is(err, errs.NotFound): // the revision was removed meanwhile; a later event follows
			r.Log.Warn("revision not found", "deployment", e.Head.UID, "rev", e.Head.Rev)
			return nil
		case errs.Is(err, errs.Unavailable) && r.Routes.LastKnown.Away():
			r.Log.Warn("head not reconciled while the documents are away; will retry", "deployment", e.Head.UID, "err", err)
			if r.live {
				r.waiting.Set(e.Head.UID, r.awayPause)
				return nil
			}
			attempt = 0
			_ = pause.For(ctx, r.awayPause)
			continue
		case errors.Is(err, appcontext.ErrFenced), attempt >= headAttempts:
			return err
		}
		r.Log.Warn("head not reconciled; will retry", "deployment", e.Head.UID, "err", err)
		_ = pause.For(ctx, storeRetry.Backoff(attempt, err))
	}
}

// reconcileHead writes the pairs that a head asks for, if it asks for anything new, and returns the targets that must
// change.
//
// The event only names the head that may have changed. Its newest state counts, because an event that waited must not start
// what a later one has canceled. The shard remembers the state that it has reconciled: the same state needs nothing,
// unless a recheck was asked for. After an error it remembers nothing, because a part may be done.
func (r *headReconciler) reconcileHead(ctx context.Context, e appcontext.HeadEvent) ([]pair.Target, error) {
	head, err := r.Heads.Head(ctx, e.Head.UID)
	if errs.Is(err, errs.NotFound) {
		if !e.Deleted { // the event is the last that is known of it
			r.owners.update(e.Head)
		}
		return r.removeDeleted(ctx, e.Head.UID)
	}
	if err != nil {
		return nil, err
	}
	deployment, owned := r.owners.update(head)
	state := stateOf(head, owned)
	last, known := r.reconciled[head.UID]
	changed := !known || last.state != state
	why := r.rechecks.take(head.UID)
	if !changed && why == (recheck{}) {
		return nil, nil
	}
	if why.whole {
		last = reconciled{}
	}
	due, now, err := r.carryOut(ctx, head, deployment, state, last, why.claim)
	if err != nil {
		delete(r.reconciled, head.UID)
		r.rechecks.add(head.UID, why) // for the next attempt
		return nil, err
	}
	r.reconciled[head.UID] = now
	if changed && r.live {
		r.orphans.schedule(head, state)
	}
	return due, nil
}

// stateOf returns the state of a head that owns its deployment, or does not.
func stateOf(head appcontext.Head, owned bool) headState {
	s := headState{rev: head.Rev, removed: head.Gone || head.Rev == 0 && !head.TookOver(), stopped: head.Stopped, owned: owned, promoted: head.Promotion()}
	if s.removed {
		s.terminated = head.Terminated.UTC()
	}
	return s
}

// carryOut does what a head asks for. It returns the targets that must change, and what is reconciled then.
func (r *headReconciler) carryOut(ctx context.Context, head appcontext.Head, deployment v2.DeploymentID, state headState, last reconciled, claim bool) ([]pair.Target, reconciled, error) {
	now := reconciled{state: state}
	switch {
	case !state.owned: // another head decides what the deployment holds
		return nil, now, nil
	case state.stopped:
		return nil, now, r.stop(ctx, deployment)
	case head.TookOver(): // what was handed over stays as it is
		return nil, now, nil
	}
	return r.setDesired(ctx, head, deployment, state, last, claim)
}

// setDesired writes the pairs that a head's revision wants of this shard, and returns the
// targets that must change. With claim it also starts on clusters of other shards on which
// no shard has started.
func (r *headReconciler) setDesired(ctx context.Context, head appcontext.Head, deployment v2.DeploymentID, state headState, last reconciled, claim bool) ([]pair.Target, reconciled, error) {
	now := reconciled{state: state}
	ctx = readpoint.With(ctx)
	var documents store.Changes
	if !state.removed { // a removal needs no documents
		if r.Routes.LastKnown.Away() { // to ask them takes long then, and other heads would wait
			return nil, now, errs.New(errs.Unavailable, "the documents are away")
		}
		var err error
		if documents, err = r.Routes.DB.Changes(ctx, last.mark); err != nil {
			return nil, now, err
		}
	}
	w := pair.Desired{
		Deployment: deployment, Head: head.UID, Subject: head.Document, Trace: head.Traceparent, Rev: head.Rev, Removed: state.removed, Promoted: state.promoted,
		Again:     last.state.removed && state.removed && !last.state.terminated.Equal(state.terminated),
		Handovers: r.pairs.Handovers(), // before anything is read from the store
	}
	err := r.readRevision(ctx, &w, last, documents, claim)
	if err != nil {
		return nil, now, err
	}
	if w.Registrations, err = r.registrations(ctx, w); err != nil {
		return nil, now, err
	}
	due, err := r.write(ctx, w)
	if !w.Removed {
		now.rev, now.mark = w.Rev, documents.Mark
	}
	return due, now, err
}

// writtenAtOnce is as many clusters as two jobs of gitwriter take.
const writtenAtOnce = 2000

// write writes the pairs of a change, and returns the targets that must change. Those of a large change are requeued as they are
// written, so that the first clusters are delivered meanwhile; it returns the rest.
func (r *headReconciler) write(ctx context.Context, w pair.Desired) ([]pair.Target, error) {
	parts := r.parts(w)
	for _, part := range parts[:len(parts)-1] {
		due, err := r.pairs.SetDesired(ctx, part)
		if err != nil {
			return nil, err
		}
		r.proceed(ctx, due)
	}
	return r.pairs.SetDesired(ctx, parts[len(parts)-1])
}

// parts splits a change by clusters, in order. Pairs that wait for each other are compared together, and so are those whose last write is
// unconfirmed: such a change is one part, and so is a removal.
func (r *headReconciler) parts(w pair.Desired) (parts []pair.Desired) {
	whole := []pair.Desired{w}
	if w.Removed || gate.Ordered(w.Apps) || !r.pairs.Plain(w.Deployment) {
		return whole
	}
	scope := w.Scope
	if scope == nil {
		scope = r.pairs.Clusters(w.Deployment)
		for c := range w.Places {
			scope[c] = true
		}
	}
	if len(scope) <= r.atOnce {
		return whole
	}
	w.At = time.Now()
	for some := range slices.Chunk(slices.Sorted(maps.Keys(scope)), r.atOnce) {
		part := w
		part.Scope, part.Places = make(map[v2.ClusterKey]bool, len(some)), make(map[v2.ClusterKey]map[string]appcontext.Digest, len(some))
		for _, c := range some {
			part.Scope[c] = true
			if apps, placed := w.Places[c]; placed {
				part.Places[c] = apps
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// readRevision sets what a revision wants on which clusters, and the order. The order
// also holds for a removal.
func (r *headReconciler) readRevision(ctx context.Context, w *pair.Desired, last reconciled, documents store.Changes, claim bool) error {
	if w.Rev == 0 || w.Removed && len(r.pairs.TargetsOf(w.Deployment)) == 0 {
		return nil // there is nothing to order
	}
	rev, err := r.Revisions.revision(ctx, w.Head, w.Rev)
	if err != nil && !(w.Removed && errs.Is(err, errs.NotFound)) {
		return err
	}
	w.Apps, w.Rollback, w.Namespace, w.Cloud = rev.Apps, rev.Kind == "rollback", rev.Namespace, rev.Cloud
	if w.Removed {
		return nil
	}
	if !claim && !documents.All && r.followsReconciled(*w, last) {
		return r.placesThatDiffer(ctx, w, last, documents)
	}
	return r.allPlaces(ctx, w, rev, claim)
}

// followsReconciled reports whether it is enough to compare a revision with the last one.
// Where pairs wait for each other all of them must be compared.
func (r *headReconciler) followsReconciled(w pair.Desired, last reconciled) bool {
	return last.rev > 0 && last.rev < w.Rev && !gate.Ordered(w.Apps) && r.pairs.Plain(w.Deployment)
}

// allPlaces sets where a revision wants what. This shard's clusters are those on which it
// has started, and those of its routes on which no shard has started.
func (r *headReconciler) allPlaces(ctx context.Context, w *pair.Desired, rev appcontext.Revision, claim bool) error {
	all, err := r.Revisions.placements(ctx, w.Head, rev)
	if err != nil {
		return err
	}
	starting := maps.Keys(all.bundles)
	if !claim {
		starting = slices.Values(all.ofShard[r.number])
	}
	own := r.pairs.Clusters(w.Deployment)
	var candidates []v2.ClusterKey
	for c := range starting {
		if !own[c] {
			candidates = append(candidates, c)
		}
	}
	if err := r.addUnstarted(ctx, w.Deployment, candidates, own); err != nil {
		return err
	}
	w.Places = make(map[v2.ClusterKey]map[string]appcontext.Digest, len(own))
	for c := range own {
		if apps, placed := all.bundles[c]; placed {
			w.Places[c] = apps
		}
	}
	if !gate.Ordered(w.Apps) { // nothing waits for other shards
		return nil
	}
	w.Labelled = all.labelled
	w.Elsewhere = map[v2.ClusterKey]map[string]appcontext.Digest{}
	for c, apps := range all.bundles {
		if !own[c] {
			w.Elsewhere[c] = apps
		}
	}
	return nil
}

// addUnstarted adds the clusters on which no shard has started with a deployment.
func (r *headReconciler) addUnstarted(ctx context.Context, deployment v2.DeploymentID, clusters []v2.ClusterKey, own map[v2.ClusterKey]bool) error {
	started, err := r.contexts.ShardsOf(ctx, deployment, clusters)
	if err != nil {
		return err
	}
	for _, c := range clusters {
		if _, other := started[c]; !other {
			own[c] = true
		}
	}
	return nil
}

// placesThatDiffer limits w to the clusters on which something may have to change. After a
// revision whose pairs were all written, these are the clusters where the next one differs,
// where pairs are not settled, and whose registration was written since.
func (r *headReconciler) placesThatDiffer(ctx context.Context, w *pair.Desired, last reconciled, documents store.Changes) error {
	changed, err := r.Revisions.changes(ctx, w.Head, last.rev, w.Rev)
	if err != nil {
		return err
	}
	candidates := r.pairs.Unsettled(w.Deployment)
	for c := range r.pairs.Clusters(w.Deployment) {
		if changed.clusters[c] {
			candidates[c] = true
		}
	}
	maps.Copy(candidates, clustersIn(documents.Keys))
	own, others := r.pairs.Split(w.Deployment, candidates)
	others = slices.DeleteFunc(others, func(c v2.ClusterKey) bool { return changed.clusters[c] })
	shards, err := r.Revisions.shards(ctx, others)
	if err != nil {
		return err
	}
	var unstarted []v2.ClusterKey
	for _, c := range others {
		if shards[c] == r.number {
			unstarted = append(unstarted, c)
		}
	}
	for _, c := range changed.ofShard[r.number] { // not looked up again: else the shards of a process may disagree, and none starts
		if !own[c] {
			unstarted = append(unstarted, c)
		}
	}
	if err := r.addUnstarted(ctx, w.Deployment, unstarted, own); err != nil {
		return err
	}
	w.Scope = own
	w.Places, err = r.Revisions.placesOn(ctx, w.Head, w.Rev, own)
	return err
}

// clustersIn returns the clusters whose registrations are among the keys.
func clustersIn(keys []store.Key) map[v2.ClusterKey]bool {
	out := map[v2.ClusterKey]bool{}
	for _, k := range keys {
		if cluster, ok := v2.ClusterOf(string(k)); ok {
			out[cluster] = true
		}
	}
	return out
}

// registrations reads the ids of the registrations of w's clusters. Clusters that are not
// registered are left out.
func (r *headReconciler) registrations(ctx context.Context, w pair.Desired) (map[v2.ClusterKey]string, error) {
	lookup, out := r.Routes.Lookup(), make(map[v2.ClusterKey]string, len(w.Places))
	lookup.Prefetch(ctx, maps.Keys(w.Places))
	for cluster := range w.Places {
		registration, err := lookup.Registration(ctx, cluster)
		switch {
		case registration.UID != "": // also of one that cannot be decoded
			out[cluster] = registration.UID
		case !errs.Is(err, errs.NotFound):
			return nil, err
		}
	}
	return out, nil
}

// removeDeleted removes what a deleted head has on clusters, unless another head has taken
// it over.
func (r *headReconciler) removeDeleted(ctx context.Context, id appcontext.HeadID) ([]pair.Target, error) {
	head := r.owners.heads[id]
	deployment, owned := r.owners.remove(id)
	if !owned {
		delete(r.reconciled, id)
		return nil, nil
	}
	due, err := r.pairs.SetDesired(ctx, pair.Desired{Deployment: deployment, Removed: true})
	if err != nil {
		if head.UID != "" {
			r.owners.update(head) // for the next attempt
		}
		return nil, err
	}
	delete(r.reconciled, id)
	return due, nil
}
