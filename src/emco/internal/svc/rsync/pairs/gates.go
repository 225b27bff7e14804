package pairs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/gate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

const (
	// describeEvery is how long a waiting pair keeps its description although what it waits
	// for has changed: thousands of pairs may wait for a thousand clusters.
	describeEvery = 5 * time.Second
	// gatherChanges is how long changes of pairs and reports are gathered before gates are
	// checked.
	gatherChanges = 200 * time.Millisecond
)

// order is how the pairs of a deployment's revision wait for each other. Its fields do not
// change, except described.
type order struct {
	apps      map[string]appcontext.App
	rev       int64
	removed   bool
	elsewhere map[v2.ClusterKey]map[string]appcontext.Digest // what other shards must hold, by cluster and app
	described time.Time                                      // when waiting pairs last got a new description; guarded by writing
}

// closeGates blocks those of a deployment's due pairs that must wait for others before
// they start. have is what the deployment has. A pair that may start keeps that right
// until something else is desired. The caller holds writing.
func (s *Store) closeGates(ctx context.Context, uid v2.DeploymentID, have, due []appcontext.Pair) error {
	o := s.deployments[uid].order
	if o == nil {
		for i, p := range due {
			if pair.AtGate(p) { // the order that it waited for no longer holds
				due[i].Blocked = ""
			}
		}
		return nil
	}
	if !slices.ContainsFunc(due, s.notAdmitted) {
		return nil
	}
	all := make(map[appcontext.PairKey]appcontext.Pair, len(have))
	for _, p := range slices.Concat(have, due) {
		all[p.Key] = p
	}
	gates, reports, err := s.gatesOf(ctx, uid, o, slices.Collect(maps.Values(all)))
	if err != nil {
		return err
	}
	for i, p := range due {
		if s.notAdmitted(p) {
			due[i].Blocked = s.whyClosed(uid, gates.For(p))
		}
	}
	return reports.err
}

// notAdmitted reports whether a due pair has not passed its gate yet. The caller holds
// writing.
func (s *Store) notAdmitted(p appcontext.Pair) bool {
	old, _ := s.index.pair(p.Key)
	same := old.Change != "" && old.Rev == p.Rev && old.Desired == p.Desired
	return !pair.Started(p) && !p.Halted && !(same && old.Blocked == "")
}

// gatesOf returns the gates of a deployment's pairs, other shards' pairs included. Errors
// that occur while gates are evaluated are in reports.err. The caller holds writing.
func (s *Store) gatesOf(ctx context.Context, uid v2.DeploymentID, o *order, pairs []appcontext.Pair) (*gate.Gates, *gateReports, error) {
	needed := gate.NeedReadiness(o.apps)
	var keys []appcontext.PairKey
	for _, p := range pairs {
		if needed[p.Key.App] && p.Phase == appcontext.Applied {
			keys = append(keys, p.Key)
		}
	}
	if err := s.reports.load(ctx, keys, false); err != nil {
		return nil, nil, err
	}
	others, err := s.otherPairs(ctx, uid, o)
	if err != nil {
		return nil, nil, err
	}
	reports := &gateReports{ctx: ctx, cache: &s.reports, plans: s.cfg.Plans, others: others, equal: equalReports{}}
	in := gate.Input{Apps: o.apps, Removed: o.removed, Pairs: slices.Concat(pairs, others.pairs), Reports: reports, Now: s.cfg.Now()}
	return gate.New(in), reports, nil
}

// whyClosed returns why a gate is closed. If time opens it, the deployment is checked then.
func (s *Store) whyClosed(uid v2.DeploymentID, g gate.Gate) string {
	if !g.At.IsZero() {
		s.gates.checkAt(uid, g.At)
	}
	return g.Why
}

// OpenGates checks what a deployment's pairs wait for, and returns the targets that may
// start now.
func (s *Store) OpenGates(ctx context.Context, uid v2.DeploymentID) ([]pair.Target, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	d := s.deployments[uid]
	if d.order == nil || d.stopped || !s.gates.isWaiting(uid) {
		return nil, nil
	}
	pairs := s.index.ofDeployment(uid)
	gates, reports, err := s.gatesOf(ctx, uid, d.order, pairs)
	if err != nil {
		return nil, err
	}
	now := s.cfg.Now()
	keepDescriptions := now.Sub(d.order.described) < describeEvery
	var put []appcontext.Pair
	for _, p := range pairs {
		if !pair.AtGate(p) {
			continue
		}
		switch why := s.whyClosed(uid, gates.For(p)); {
		case why == p.Blocked:
		case why != "" && keepDescriptions:
			s.gates.checkAt(uid, d.order.described.Add(describeEvery))
		default:
			p.Blocked = why
			put = append(put, p)
		}
	}
	if reports.err != nil {
		return nil, reports.err
	}
	if err := s.write(ctx, change{put: put}); err != nil {
		return nil, err
	}
	if !keepDescriptions && len(put) > 0 {
		d.order.described = now
	}
	return pair.TargetsOf(pair.AllDeliverable(put)), nil
}

// RunGates checks the gates of a deployment whenever one of its pairs or their readiness
// changes, in this shard or another one, and when time opens one. It calls opened with the
// targets that may start; it returns when ctx ends.
func (s *Store) RunGates(ctx context.Context, opened func(context.Context, []pair.Target)) {
	others := newOtherWatchers(s.cfg.Others, s.gates.check)
	defer others.wait()
	for ctx.Err() == nil {
		others.watch(ctx, s.gates.waitingDeployments())
		due, next := s.gates.take(s.cfg.Now())
		for _, uid := range due {
			targets, err := s.OpenGates(ctx, uid)
			if err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("gates not checked; will retry", "deployment", uid, "err", err)
				s.gates.checkAt(uid, s.cfg.Now().Add(pair.FirstRetry))
			}
			opened(ctx, targets)
		}
		s.gates.await(ctx, next)
		queue.Pause(ctx, gatherChanges)
	}
}

// gateQueue lists the deployments whose gates must be checked.
type gateQueue struct {
	wake chan struct{} // holds a token when the lists below have changed

	mu      sync.Mutex                    // guards the fields below
	waiting map[v2.DeploymentID]int       // pairs at a gate, by deployment
	due     map[v2.DeploymentID]bool      // deployments to check now
	timers  map[v2.DeploymentID]time.Time // by deployment: when to check it although nothing happens
}

func newGateQueue() gateQueue {
	return gateQueue{wake: make(chan struct{}, 1), waiting: map[v2.DeploymentID]int{}, due: map[v2.DeploymentID]bool{}, timers: map[v2.DeploymentID]time.Time{}}
}

// pairChanged counts a pair, and has its deployment checked if pairs of it wait.
func (q *gateQueue) pairChanged(old, p appcontext.Pair) {
	q.mu.Lock()
	defer q.mu.Unlock()
	uid := p.Key.Deployment
	if was, is := pair.AtGate(old), pair.AtGate(p); was && !is {
		q.waiting[uid]--
	} else if is && !was {
		q.waiting[uid]++
	}
	if n, there := q.waiting[uid]; there && n == 0 {
		delete(q.waiting, uid)
	}
	q.checkLocked(uid)
}

// check has a deployment checked soon, if pairs of it wait.
func (q *gateQueue) check(uid v2.DeploymentID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.checkLocked(uid)
}

func (q *gateQueue) checkLocked(uid v2.DeploymentID) {
	if q.waiting[uid] > 0 && !q.due[uid] {
		q.due[uid] = true
		q.signal()
	}
}

// checkAt has a deployment checked at a time, or earlier.
func (q *gateQueue) checkAt(uid v2.DeploymentID, t time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first, set := q.timers[uid]; !set || t.Before(first) {
		q.timers[uid] = t
		q.signal()
	}
}

func (q *gateQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *gateQueue) isWaiting(uid v2.DeploymentID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[uid] > 0
}

// waitingDeployments returns the deployments with pairs at a gate.
func (q *gateQueue) waitingDeployments() map[v2.DeploymentID]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make(map[v2.DeploymentID]bool, len(q.waiting))
	for uid := range q.waiting {
		out[uid] = true
	}
	return out
}

// take empties the list of deployments to check now, and returns when the next one must be
// checked if nothing happens; zero if none must.
func (q *gateQueue) take(now time.Time) (due []v2.DeploymentID, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for uid, at := range q.timers {
		switch {
		case !now.Before(at):
			q.due[uid] = true
			delete(q.timers, uid)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	due = sortedKeys(q.due)
	clear(q.due)
	return due, next
}

// await waits until a list changes, or until a time unless it is zero.
func (q *gateQueue) await(ctx context.Context, until time.Time) {
	var timeout <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-ctx.Done():
	case <-q.wake:
	case <-timeout:
	}
}

// ---- Other shards: the order of a deployment's apps holds across all its clusters.

// Others is where a shard sees the pairs of other shards, and the agents of clusters.
type Others interface {
	LastSequence(cluster v2.ClusterKey) uint64
	Snapshot(ctx context.Context, id appcontext.HeadID) (mirror.Snapshot, error)
	Subscribe(topics mirror.Topics) *mirror.Subscription
}

// otherPairs is what other shards have of a deployment.
type otherPairs struct {
	pairs   []appcontext.Pair
	reports map[appcontext.PairKey]*mirror.Report // of all pairs; nil where there is none
}

// otherPairs returns a deployment's pairs in other shards. With an order, a pair whose
// shard has not processed the revision yet is as it will be then: on its way.
func (s *Store) otherPairs(ctx context.Context, uid v2.DeploymentID, o *order) (otherPairs, error) {
	out := otherPairs{reports: map[appcontext.PairKey]*mirror.Report{}}
	if s.cfg.Others == nil {
		return out, nil
	}
	snap, err := s.cfg.Others.Snapshot(ctx, cmp.Or(s.deployments[uid].head, appcontext.FirstHead(uid)))
	if err != nil {
		return out, err
	}
	retarget := func(p appcontext.Pair, bundle appcontext.Digest) appcontext.Pair {
		return pair.Desired{Deployment: uid, Rev: o.rev}.Retarget(p, bundle, s.cfg.Now())
	}
	for at, e := range snap.Pairs {
		if e.State == nil || e.State.Common().Shard == s.cfg.Shard {
			continue
		}
		p := e.State.Pair(appcontext.PairKey{Cluster: at.Cluster, Deployment: uid, App: at.App}, "")
		if o != nil && p.Desired != o.elsewhere[at.Cluster][at.App] {
			p = retarget(p, o.elsewhere[at.Cluster][at.App])
		}
		out.add(p, e.Report)
	}
	if o == nil {
		return out, nil
	}
	for cluster, apps := range o.elsewhere {
		for app, bundle := range apps {
			key := appcontext.PairKey{Cluster: cluster, Deployment: uid, App: app}
			if _, there := out.reports[key]; !there {
				out.add(retarget(appcontext.Pair{Key: key}, bundle), nil)
			}
		}
	}
	return out, nil
}

func (o *otherPairs) add(p appcontext.Pair, r *mirror.Report) {
	o.pairs = append(o.pairs, p)
	o.reports[p.Key] = r
}

// ready says whether a pair of another shard is ready.
func (o *otherPairs) ready(p appcontext.Pair) gate.Readiness {
	switch r := o.reports[p.Key]; {
	case p.Phase != appcontext.Applied:
		return gate.Readiness{Why: "not applied yet"}
	case r == nil:
		return gate.Readiness{Unreported: true}
	case r.Ready:
		return gate.Readiness{Ready: true, Since: r.Since}
	}
	return gate.Readiness{Why: "not ready"}
}

// otherWatchers watch deployments in other shards while pairs of this shard wait. Only the
// goroutine of RunGates calls them.
type otherWatchers struct {
	others  Others
	changed func(deployment v2.DeploymentID)

	running map[v2.DeploymentID]context.CancelFunc // by deployment
	wg      sync.WaitGroup
}

func newOtherWatchers(others Others, changed func(v2.DeploymentID)) *otherWatchers {
	return &otherWatchers{others: others, changed: changed, running: map[v2.DeploymentID]context.CancelFunc{}}
}

// watch watches these deployments, and no others, until ctx ends.
func (w *otherWatchers) watch(ctx context.Context, deployments map[v2.DeploymentID]bool) {
	if w.others == nil {
		return
	}
	for uid, stop := range w.running {
		if !deployments[uid] {
			stop()
			delete(w.running, uid)
		}
	}
	for uid := range deployments {
		if w.running[uid] == nil {
			own, stop := context.WithCancel(ctx)
			w.running[uid] = stop
			w.wg.Go(func() { w.run(own, uid) })
		}
	}
}

func (w *otherWatchers) run(ctx context.Context, uid v2.DeploymentID) {
	sub := w.others.Subscribe(mirror.Topics{Deployments: []v2.DeploymentID{uid}})
	defer sub.Close()
	for ctx.Err() == nil {
		w.changed(uid) // at first too: something may have changed before
		select {
		case <-sub.Changed():
		case <-ctx.Done():
		}
	}
}

// wait returns when all watchers have ended; their context must have.
func (w *otherWatchers) wait() { w.wg.Wait() }
