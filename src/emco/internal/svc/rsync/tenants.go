package rsync

import (
	"sync"

	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// tenants knows what is on which branch: a branch on which nothing is any more is left to
// its owner.
type tenants struct {
	mu sync.Mutex
	on map[route.Branch]map[pair.Target]bool
	at map[pair.Target]route.Branch
}

func newTenants() *tenants {
	return &tenants{on: map[route.Branch]map[pair.Target]bool{}, at: map[pair.Target]route.Branch{}}
}

// enter notes that a target is on a branch.
func (n *tenants) enter(t pair.Target, b route.Branch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at[t] == b {
		return
	}
	n.leaveLocked(t)
	if n.on[b] == nil {
		n.on[b] = map[pair.Target]bool{}
	}
	n.on[b][t], n.at[t] = true, b
}

// leave notes that a target is gone, and returns the branch that it was on if nothing
// else is there.
func (n *tenants) leave(t pair.Target) (b route.Branch, empty bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leaveLocked(t)
}

func (n *tenants) leaveLocked(t pair.Target) (b route.Branch, empty bool) {
	b, known := n.at[t]
	if !known {
		return b, false
	}
	delete(n.at, t)
	if delete(n.on[b], t); len(n.on[b]) > 0 {
		return b, false
	}
	delete(n.on, b)
	return b, true
}
