package pairs

import (
	"context"
	"maps"
	"slices"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/gate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
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
	labelled  map[string]map[v2.ClusterKey]bool              // by label that waves name: the clusters that have it
	promoted  appcontext.Promotion
	described time.Time // when waiting pairs last got a new description; guarded by writing
}

// gateChecker decides which pairs may start, and which must wait for others, also for pairs of other shards.
// Store.writing guards it, except its queue.
type gateChecker struct {
	cfg     Config
	queue   gateQueue // locks itself
	memory  *memory
	reports *reportCache
}

// block blocks those of a deployment's due pairs that must wait for others before
// they start. have is what the deployment has. A pair that may start keeps that right
// until something else is desired.
func (g *gateChecker) block(ctx context.Context, uid v2.DeploymentID, have, due []appcontext.Pair) error {
	o := g.memory.deployments[uid].order
	if o == nil {
		for i, p := range due {
			if pair.AtGate(p) { // the order that it waited for no longer holds
				due[i].Blocked = ""
			}
		}
		return nil
	}
	if !slices.ContainsFunc(due, g.notAdmitted) {
		return nil
	}
	all := make(map[appcontext.PairKey]appcontext.Pair, len(have))
	for _, p := range slices.Concat(have, due) {
		all[p.Key] = p
	}
	gates, reports, err := g.of(ctx, uid, o, slices.Collect(maps.Values(all)))
	if err != nil {
		return err
	}
	for i, p := range due {
		if g.notAdmitted(p) {
			due[i].Blocked = g.whyClosed(uid, gates.For(p))
		}
	}
	return reports.err
}

// notAdmitted reports whether a due pair has not passed its gate yet.
func (g *gateChecker) notAdmitted(p appcontext.Pair) bool {
	old, _ := g.memory.index.pair(p.Key)
	same := old.Change != "" && old.Rev == p.Rev && old.Desired == p.Desired
	return !pair.Started(p) && !p.Halted && !(same && old.Blocked == "")
}

// of returns the gates of a deployment's pairs, other shards' pairs included. Errors
// that occur while gates are evaluated are in reports.err.
func (g *gateChecker) of(ctx context.Context, uid v2.DeploymentID, o *order, pairs []appcontext.Pair) (*gate.Gates, *gateReports, error) {
	needed := gate.NeedReadiness(o.apps)
	var keys []appcontext.PairKey
	for _, p := range pairs {
		if needed[p.Key.App] && p.Phase == appcontext.Applied {
			keys = append(keys, p.Key)
		}
	}
	if err := g.reports.load(ctx, keys, false); err != nil {
		return nil, nil, err
	}
	others, err := g.otherPairs(ctx, uid, o)
	if err != nil {
		return nil, nil, err
	}
	reports := &gateReports{ctx: ctx, cache: g.reports, plans: g.cfg.Plans, others: others, equal: equalReports{}, never: map[v2.ClusterKey]bool{}}
	in := gate.Input{Apps: o.apps, Removed: o.removed, Pairs: slices.Concat(pairs, others.pairs), Reports: reports, Now: g.cfg.Now(), Labelled: o.labelled, Promoted: o.promoted}
	return gate.New(in), reports, nil
}

// whyClosed returns why a gate is closed. If time opens it, the deployment is checked then.
func (g *gateChecker) whyClosed(uid v2.DeploymentID, closed gate.Gate) string {
	if !closed.At.IsZero() {
		g.queue.checkAt(uid, closed.At)
	}
	return closed.Why
}

// OpenGates checks what a deployment's pairs wait for, and returns the targets that may
// start now.
func (s *Store) OpenGates(ctx context.Context, uid v2.DeploymentID) ([]pair.Target, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	d := s.deployments[uid]
	if d.order == nil || d.stopped || !s.gates.queue.isWaiting(uid) {
		return nil, nil
	}
	pairs := s.index.ofDeployment(uid)
	gates, reports, err := s.gates.of(ctx, uid, d.order, pairs)
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
		switch why := s.gates.whyClosed(uid, gates.For(p)); {
		case why == p.Blocked:
		case why != "" && keepDescriptions:
			s.gates.queue.checkAt(uid, d.order.described.Add(describeEvery))
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
	others := newOtherWatchers(s.cfg.Others, s.gates.queue.check)
	defer others.wait()
	for ctx.Err() == nil {
		others.watch(ctx, s.gates.queue.waitingDeployments())
		due, next := s.gates.queue.take(s.cfg.Now())
		for _, uid := range due {
			targets, err := s.OpenGates(ctx, uid)
			if err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("gates not checked; will retry", "deployment", uid, "err", err)
				s.gates.queue.checkAt(uid, s.cfg.Now().Add(pair.FirstRetry))
			}
			opened(ctx, targets)
		}
		s.gates.queue.await(ctx, next)
		_ = pause.For(ctx, gatherChanges)
	}
}
