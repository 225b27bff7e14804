package shard

import (
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// recheck is why a head must be reconciled again although it has not changed.
type recheck struct {
	whole bool // pairs have come from another shard: everything must be compared
	claim bool // it is time for the orphan sweep
}

// rechecks are the heads that must be reconciled again.
type rechecks struct {
	mu  sync.Mutex
	due map[appcontext.HeadID]recheck // by head; guarded by mu
}

func (r *rechecks) add(id appcontext.HeadID, why recheck) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		r.due = map[appcontext.HeadID]recheck{}
	}
	if why == (recheck{}) {
		return
	}
	was := r.due[id]
	r.due[id] = recheck{whole: was.whole || why.whole, claim: was.claim || why.claim}
}

// take returns, once, why a head must be reconciled again.
func (r *rechecks) take(id appcontext.HeadID) recheck {
	r.mu.Lock()
	defer r.mu.Unlock()
	why := r.due[id]
	delete(r.due, id)
	return why
}

// orphanSweep finds pairs that no shard starts. Which shard starts a deployment on a
// cluster follows from the cluster's registration. If that changes while processes read
// it, each may take another shard for the right one, and none starts. So for each
// deployment one shard, which follows from the deployment's id alone, looks again after a
// while and starts whatever no shard has started.
type orphanSweep struct {
	shard int
	alone func() bool                      // no other process works: all shards see the same registrations
	timer *queue.Timers[appcontext.HeadID] // its calls reconcile a head again, and claim what no shard has started
}

// sweepAfter is how long after a change of a head the sweep is.
const sweepAfter = time.Minute

func newOrphanSweep(shard int, alone func() bool, sweep func(id appcontext.HeadID)) *orphanSweep {
	return &orphanSweep{
		shard: shard, alone: alone,
		timer: queue.NewTimers(sweep),
	}
}

// schedule sets the time of the sweep for a head that has changed.
func (o *orphanSweep) schedule(head appcontext.Head, state headState) {
	if !state.removed && !state.stopped && state.owned && route.Group.Of(string(head.Deployment())) == o.shard && !o.alone() {
		o.timer.Set(head.UID, sweepAfter)
	}
}
