package queue

import (
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// unreachable remembers for which targets a repository could not be reached. When it can be
// reached for one of them, or one of them is elsewhere by now, the others need not wait
// for their time: all catch up together.
type Unreachable struct {
	mu     sync.Mutex
	queues map[pair.Target]string // the lane that each was late in
}

// report takes in what came of some targets of a lane, and returns those that are worth
// another try because of it.
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
