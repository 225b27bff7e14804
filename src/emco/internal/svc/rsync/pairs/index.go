package pairs

import (
	"maps"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// index finds pairs by target, deployment and cluster. It does not lock.
type index struct {
	pairs        map[pair.Target][]indexed // in order of app
	byDeployment map[v2.DeploymentID]map[pair.Target]bool
	byCluster    map[v2.ClusterKey]map[pair.Target]bool
}

// indexed is one pair of a target. Pairs that stand alike share their state.
type indexed struct {
	app      string
	identity string
	state    *appcontext.PairState
}

func newIndex() index {
	return index{map[pair.Target][]indexed{}, map[v2.DeploymentID]map[pair.Target]bool{}, map[v2.ClusterKey]map[pair.Target]bool{}}
}

// find returns where a target's list has an app, or would have it.
func find(list []indexed, app string) (int, bool) {
	return slices.BinarySearchFunc(list, app, func(p indexed, app string) int { return strings.Compare(p.app, app) })
}

func (x *index) put(k appcontext.PairKey, identity string, state *appcontext.PairState) {
	t := pair.TargetOf(k)
	list := x.pairs[t]
	if list == nil {
		addTarget(x.byDeployment, t.UID, t)
		addTarget(x.byCluster, t.Cluster, t)
	}
	p := indexed{k.App, identity, state}
	if i, known := find(list, k.App); known {
		list[i] = p
	} else {
		x.pairs[t] = slices.Insert(list, i, p)
	}
}

func addTarget[K comparable](by map[K]map[pair.Target]bool, key K, t pair.Target) {
	if by[key] == nil {
		by[key] = map[pair.Target]bool{}
	}
	by[key][t] = true
}

func (x *index) remove(k appcontext.PairKey) {
	t := pair.TargetOf(k)
	list := x.pairs[t]
	i, known := find(list, k.App)
	if !known {
		return
	}
	if list = slices.Delete(list, i, i+1); len(list) > 0 {
		x.pairs[t] = list
		return
	}
	delete(x.pairs, t)
	removeTarget(x.byDeployment, t.UID, t)
	removeTarget(x.byCluster, t.Cluster, t)
}

func removeTarget[K comparable](by map[K]map[pair.Target]bool, key K, t pair.Target) {
	if delete(by[key], t); len(by[key]) == 0 {
		delete(by, key)
	}
}

func (x *index) pair(k appcontext.PairKey) (appcontext.Pair, bool) {
	list := x.pairs[pair.TargetOf(k)]
	i, known := find(list, k.App)
	if !known {
		return appcontext.Pair{}, false
	}
	return list[i].state.Pair(k, list[i].identity), true
}

// has reports whether a deployment has pairs.
func (x *index) has(deployment v2.DeploymentID) bool { return len(x.byDeployment[deployment]) > 0 }

// of returns all pairs of targets, those of a target in order of app.
func (x *index) of(targets ...pair.Target) (out []appcontext.Pair) {
	for _, t := range targets {
		for _, p := range x.pairs[t] {
			out = append(out, p.state.Pair(appcontext.PairKey{Cluster: t.Cluster, UID: t.UID, App: p.app}, p.identity))
		}
	}
	return out
}

// ofDeployment returns all pairs of a deployment, in no order.
func (x *index) ofDeployment(uid v2.DeploymentID) []appcontext.Pair {
	return x.of(slices.Collect(maps.Keys(x.byDeployment[uid]))...)
}

// unsettledPairs are the pairs that do not hold what is desired, by deployment.
type unsettledPairs map[v2.DeploymentID]map[appcontext.PairKey]bool

func (u unsettledPairs) update(p appcontext.Pair) {
	if p.Phase == appcontext.Applied && p.Desired != "" {
		u.remove(p.Key)
		return
	}
	if u[p.Key.UID] == nil {
		u[p.Key.UID] = map[appcontext.PairKey]bool{}
	}
	u[p.Key.UID][p.Key] = true
}

func (u unsettledPairs) remove(k appcontext.PairKey) {
	if delete(u[k.UID], k); len(u[k.UID]) == 0 {
		delete(u, k.UID)
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
		if p.Key.UID == deployment {
			out = append(out, p)
		}
	}
	return out
}

// any reports whether writes of a deployment are unconfirmed.
func (u unconfirmedWrites) any(deployment v2.DeploymentID) bool {
	for k := range u.known {
		if k.UID == deployment {
			return true
		}
	}
	return len(u.newPairs(deployment)) > 0
}
