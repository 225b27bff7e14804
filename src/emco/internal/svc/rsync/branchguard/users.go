package branchguard

import (
	"sync"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// branchUsers knows which targets are on which branch.
type branchUsers struct {
	mu       sync.Mutex
	targets  map[route.Branch]map[pair.Target]bool  // guarded by mu
	branch   map[pair.Target]route.Branch           // guarded by mu
	clusters map[route.Branch]map[v2.ClusterKey]int // number of targets; guarded by mu
}

func newBranchUsers() *branchUsers {
	return &branchUsers{targets: map[route.Branch]map[pair.Target]bool{}, branch: map[pair.Target]route.Branch{}, clusters: map[route.Branch]map[v2.ClusterKey]int{}}
}

// enter notes that a target is on a branch, and on no other.
func (u *branchUsers) enter(t pair.Target, b route.Branch) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.branch[t] == b {
		return
	}
	u.leaveLocked(t)
	if u.targets[b] == nil {
		u.targets[b], u.clusters[b] = map[pair.Target]bool{}, map[v2.ClusterKey]int{}
	}
	u.clusters[b][t.Cluster]++
	u.targets[b][t], u.branch[t] = true, b
}

// leave notes that a target is gone. It returns its branch, and whether that is empty now.
func (u *branchUsers) leave(t pair.Target) (b route.Branch, empty bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.leaveLocked(t)
}

func (u *branchUsers) leaveLocked(t pair.Target) (b route.Branch, empty bool) {
	b, known := u.branch[t]
	if !known {
		return b, false
	}
	delete(u.branch, t)
	if u.clusters[b][t.Cluster]--; u.clusters[b][t.Cluster] == 0 {
		delete(u.clusters[b], t.Cluster)
	}
	if delete(u.targets[b], t); len(u.targets[b]) > 0 {
		return b, false
	}
	delete(u.targets, b)
	delete(u.clusters, b)
	return b, true
}

// count returns how many clusters have targets on a branch, and the sum of what numbers has for these.
func (u *branchUsers) count(b route.Branch, numbers map[v2.ClusterKey]int) (clusters, sum int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for cluster, n := range numbers {
		if u.clusters[b][cluster] > 0 {
			sum += n
		}
	}
	return len(u.clusters[b]), sum
}

// sample returns each branch in use with one of its targets.
func (u *branchUsers) sample() map[route.Branch]pair.Target {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make(map[route.Branch]pair.Target, len(u.targets))
	for b, targets := range u.targets {
		for t := range targets {
			out[b] = t
			break
		}
	}
	return out
}
