package pairs

import (
	"context"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

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
