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
	queues map[pair.Target]string // the lane that each was late in
}

// Report takes the results of a queue and returns the targets that are worth another try.
func (l *Unreachable) Report(lane string, outcomes []pair.Result) []pair.Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	reached, failed := map[string]bool{}, []pair.Target(nil)
	for _, o := range outcomes {
		t := pair.TargetOf(o.Key)
		switch was, known := l.queues[t]; {
		case o.Err == nil:
			reached[lane] = true
			reached[was] = known
			delete(l.queues, t)
		case errs.Is(o.Err, errs.Unavailable):
			failed = append(failed, t)
			delete(l.queues, t)
		}
	}
	out := l.leave(reached)
	l.enter(lane, failed)
	return out
}

// leave forgets the targets that were late in some lanes, and returns them in order.
func (l *Unreachable) leave(lanes map[string]bool) (out []pair.Target) {
	for t, lane := range l.queues {
		if lanes[lane] {
			out = append(out, t)
			delete(l.queues, t)
		}
	}
	slices.SortFunc(out, pair.CompareTargets)
	return out
}

func (l *Unreachable) enter(lane string, targets []pair.Target) {
	if l.queues == nil {
		l.queues = map[pair.Target]string{}
	}
	for _, t := range targets {
		l.queues[t] = lane
	}
}
