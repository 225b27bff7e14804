package queue

import (
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Unreachable remembers the targets whose repository could not be reached. When it is reached
// for one of them, or one has moved to another queue, the others need not wait for their
// retry: all are delivered together.
type Unreachable struct {
	mu     sync.Mutex
	queues map[pair.Target]string // the queue where each was last tried; guarded by mu
}

// Update notes the results of a queue, and returns the targets that are worth another try.
func (u *Unreachable) Update(queue string, results []pair.Result) []pair.Target {
	u.mu.Lock()
	defer u.mu.Unlock()
	reached, failed := map[string]bool{}, []pair.Target(nil)
	for _, r := range results {
		t := pair.TargetOf(r.Key)
		switch {
		case r.Err == nil:
			reached[queue] = true
			if was, known := u.queues[t]; known { // the target may have moved to this queue
				reached[was] = true
			}
			delete(u.queues, t)
		case errs.Is(r.Err, errs.Unavailable):
			failed = append(failed, t)
			delete(u.queues, t)
		}
	}
	out := u.take(reached)
	u.add(queue, failed)
	return out
}

// take removes the targets whose queues were reached, and returns them in order.
func (u *Unreachable) take(reached map[string]bool) (out []pair.Target) {
	for t, queue := range u.queues {
		if reached[queue] {
			out = append(out, t)
			delete(u.queues, t)
		}
	}
	slices.SortFunc(out, pair.CompareTargets)
	return out
}

func (u *Unreachable) add(queue string, targets []pair.Target) {
	if u.queues == nil {
		u.queues = map[pair.Target]string{}
	}
	for _, t := range targets {
		u.queues[t] = queue
	}
}
