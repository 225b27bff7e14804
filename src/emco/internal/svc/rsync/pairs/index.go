package pairs

import (
	"iter"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// index finds pairs by target, deployment and cluster. It does not lock.
type index struct {
	byDeployment map[v2.DeploymentID]map[v2.ClusterKey]*targetPairs
	byCluster    map[v2.ClusterKey][]*targetPairs // in no order
	unsettled    unsettledClusters
	lastSize     int // pairs of the target that got one last: the next new target mostly gets as many
}

// targetPairs is the pairs of one target.
type targetPairs struct {
	pair.Target
	pairs []indexed // in order of app, at least one
}

// indexed is one pair of a target. Pairs that stand alike share their state, and those on which
// the same was reported share the report.
type indexed struct {
	app          string
	registration string
	state        *appcontext.PairState
	report       *lastReport // nil: not known
}

func newIndex() index {
	return index{byDeployment: map[v2.DeploymentID]map[v2.ClusterKey]*targetPairs{}, byCluster: map[v2.ClusterKey][]*targetPairs{}, unsettled: unsettledClusters{}}
}

// target returns the pairs of a target; nil if it has none.
func (x *index) target(t pair.Target) *targetPairs { return x.byDeployment[t.Deployment][t.Cluster] }

// find returns where a target's list has an app, or would have it.
func (t *targetPairs) find(app string) (int, bool) {
	return slices.BinarySearchFunc(t.pairs, app, func(p indexed, app string) int { return strings.Compare(p.app, app) })
}

// at returns the entry of a pair; nil if there is none. It is valid until the next change of the index.
func (x *index) at(k appcontext.PairKey) *indexed {
	t := x.target(pair.TargetOf(k))
	if t == nil {
		return nil
	}
	if i, known := t.find(k.App); known {
		return &t.pairs[i]
	}
	return nil
}

// put sets the state of a pair, and returns what it had of it, if anything. What is known of its report stays.
func (x *index) put(k appcontext.PairKey, registration string, state *appcontext.PairState) (old appcontext.Pair, known bool) {
	if p := x.at(k); p != nil {
		old = p.state.Pair(k, p.registration)
		x.unsettled.count(k, unsettled(state)-unsettled(p.state))
		p.registration, p.state = registration, state
		return old, true
	}
	t := x.target(pair.TargetOf(k))
	if t == nil {
		t = &targetPairs{Target: pair.TargetOf(k), pairs: make([]indexed, 0, x.lastSize)}
		if x.byDeployment[k.Deployment] == nil {
			x.byDeployment[k.Deployment] = map[v2.ClusterKey]*targetPairs{}
		}
		x.byDeployment[k.Deployment][k.Cluster] = t
		x.byCluster[k.Cluster] = append(x.byCluster[k.Cluster], t)
	}
	i, _ := t.find(k.App)
	t.pairs = slices.Insert(t.pairs, i, indexed{app: k.App, registration: registration, state: state})
	x.lastSize = len(t.pairs)
	x.unsettled.count(k, unsettled(state))
	return old, false
}

func (x *index) remove(k appcontext.PairKey) {
	t := x.target(pair.TargetOf(k))
	if t == nil {
		return
	}
	i, known := t.find(k.App)
	if !known {
		return
	}
	x.unsettled.count(k, -unsettled(t.pairs[i].state))
	if t.pairs = slices.Delete(t.pairs, i, i+1); len(t.pairs) > 0 {
		return
	}
	if delete(x.byDeployment[k.Deployment], k.Cluster); len(x.byDeployment[k.Deployment]) == 0 {
		delete(x.byDeployment, k.Deployment)
	}
	on := slices.DeleteFunc(x.byCluster[k.Cluster], func(other *targetPairs) bool { return other == t })
	if x.byCluster[k.Cluster] = on; len(on) == 0 {
		delete(x.byCluster, k.Cluster)
	}
}

func (x *index) pair(k appcontext.PairKey) (appcontext.Pair, bool) {
	p := x.at(k)
	if p == nil {
		return appcontext.Pair{}, false
	}
	return p.state.Pair(k, p.registration), true
}

// has reports whether a deployment has pairs.
func (x *index) has(deployment v2.DeploymentID) bool { return len(x.byDeployment[deployment]) > 0 }

// all yields every target that has pairs, in no order.
func (x *index) all() iter.Seq[*targetPairs] {
	return func(yield func(*targetPairs) bool) {
		for _, targets := range x.byDeployment {
			for _, t := range targets {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// of returns all pairs of targets, those of a target in order of app.
func (x *index) of(targets ...pair.Target) []appcontext.Pair {
	return x.those(func(*appcontext.Pair) bool { return true }, targets...)
}

// those returns the pairs of targets that satisfy which, those of a target in order of app. which
// sees what pairs that stand alike have in common, and must not change it.
func (x *index) those(which func(common *appcontext.Pair) bool, targets ...pair.Target) []appcontext.Pair {
	return x.filter(func(_ appcontext.PairKey, p *indexed) bool { return which(p.state.Common()) }, targets...)
}

// filter returns the pairs of targets that satisfy which, those of a target in order of app.
func (x *index) filter(which func(k appcontext.PairKey, p *indexed) bool, targets ...pair.Target) (out []appcontext.Pair) {
	n := 0
	for _, t := range targets {
		n += x.count(t, which)
	}
	out = make([]appcontext.Pair, 0, n)
	for _, t := range targets {
		for k, p := range x.each(t) {
			if which(k, p) {
				out = append(out, p.state.Pair(k, p.registration))
			}
		}
	}
	return out
}

// count returns the number of a target's pairs that satisfy which.
func (x *index) count(t pair.Target, which func(k appcontext.PairKey, p *indexed) bool) (n int) {
	for k, p := range x.each(t) {
		if which(k, p) {
			n++
		}
	}
	return n
}

// each yields the pairs of a target, in order of app.
func (x *index) each(t pair.Target) iter.Seq2[appcontext.PairKey, *indexed] {
	return func(yield func(appcontext.PairKey, *indexed) bool) {
		of := x.target(t)
		if of == nil {
			return
		}
		for i := range of.pairs {
			if p := &of.pairs[i]; !yield(appcontext.PairKey{Cluster: t.Cluster, Deployment: of.Deployment, App: p.app}, p) {
				return
			}
		}
	}
}

// ofDeployment returns all pairs of a deployment, in no order.
func (x *index) ofDeployment(uid v2.DeploymentID) []appcontext.Pair { return x.of(x.targetsOf(uid)...) }

// targetsOf returns the targets of a deployment, in no order.
func (x *index) targetsOf(uid v2.DeploymentID) []pair.Target {
	out := make([]pair.Target, 0, len(x.byDeployment[uid]))
	for _, t := range x.byDeployment[uid] {
		out = append(out, t.Target)
	}
	return out
}

// unsettled is 1 for a pair that does not hold what is desired, else 0.
func unsettled(s *appcontext.PairState) int {
	if p := s.Common(); p.Phase == appcontext.Applied && p.Desired != "" {
		return 0
	}
	return 1
}

// unsettledClusters is how many pairs of a deployment do not hold what is desired, by cluster.
type unsettledClusters map[v2.DeploymentID]map[v2.ClusterKey]int

// count adds to the number of unsettled pairs of a target.
func (u unsettledClusters) count(k appcontext.PairKey, n int) {
	if n == 0 {
		return
	}
	if u[k.Deployment] == nil {
		u[k.Deployment] = map[v2.ClusterKey]int{}
	}
	if u[k.Deployment][k.Cluster] += n; u[k.Deployment][k.Cluster] > 0 {
		return
	}
	if delete(u[k.Deployment], k.Cluster); len(u[k.Deployment]) == 0 {
		delete(u, k.Deployment)
	}
}

// unconfirmedWrites are pairs whose last write failed: etcd may hold what was written, or
// what it held before.
type unconfirmedWrites struct {
	// created are not in the index. The next SetDesired for their deployment assumes that
	// they were written, so that none is left in etcd and forgotten.
	created map[appcontext.PairKey]appcontext.Pair
	// known are in the index as they were before. They are written again even if they do
	// not change.
	known map[appcontext.PairKey]bool
}

func newUnconfirmedWrites() unconfirmedWrites {
	return unconfirmedWrites{map[appcontext.PairKey]appcontext.Pair{}, map[appcontext.PairKey]bool{}}
}

// add notes a write of pairs and a removal that failed.
func (u unconfirmedWrites) add(x *index, put []appcontext.Pair, remove []appcontext.PairKey) {
	for _, p := range put {
		if _, known := x.pair(p.Key); known {
			u.known[p.Key] = true
		} else {
			u.created[p.Key] = p
		}
	}
	for _, k := range remove {
		u.known[k] = true
	}
}

// confirm notes that it is known again what etcd holds of a pair.
func (u unconfirmedWrites) confirm(k appcontext.PairKey) {
	delete(u.created, k)
	delete(u.known, k)
}

// newPairs returns the pairs of a deployment that may have been created.
func (u unconfirmedWrites) newPairs(deployment v2.DeploymentID) (out []appcontext.Pair) {
	for _, p := range u.created {
		if p.Key.Deployment == deployment {
			out = append(out, p)
		}
	}
	return out
}

// any reports whether writes of a deployment are unconfirmed.
func (u unconfirmedWrites) any(deployment v2.DeploymentID) bool {
	for k := range u.known {
		if k.Deployment == deployment {
			return true
		}
	}
	return len(u.newPairs(deployment)) > 0
}
