package pairs

import (
	"cmp"
	"context"
	"sync"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/gate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

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

// otherPairs returns a deployment's pairs in other shards. With an order, a pair whose shard
// lags behind is returned as if that shard had processed the revision: Pending or Deleting.
func (g *gateChecker) otherPairs(ctx context.Context, uid v2.DeploymentID, o *order) (otherPairs, error) {
	out := otherPairs{reports: map[appcontext.PairKey]*mirror.Report{}}
	if g.cfg.Others == nil {
		return out, nil
	}
	snap, err := g.cfg.Others.Snapshot(ctx, cmp.Or(g.memory.deployments[uid].head, appcontext.FirstHead(uid)))
	if err != nil {
		return out, err
	}
	retarget := func(p appcontext.Pair, bundle appcontext.Digest) appcontext.Pair {
		return pair.Desired{Deployment: uid, Rev: o.rev}.Retarget(p, bundle, g.cfg.Now())
	}
	for at, e := range snap.Pairs.All() {
		if e.State == nil || e.State.Common().Shard == g.cfg.Shard {
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

// ready reports whether a pair of another shard is ready.
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
