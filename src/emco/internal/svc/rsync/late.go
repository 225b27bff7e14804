package rsync

import (
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// late remembers for which targets a repository could not be reached. When it can be
// reached for one of them, or one of them is elsewhere by now, the others need not wait
// for their time: all catch up together.
type late struct {
	mu sync.Mutex
	in map[target]string // the lane that each was late in
}

// note takes in what came of some targets of a lane, and returns those that are worth
// another try because of it.
func (l *late) note(lane string, outcomes []outcome) []target {
	l.mu.Lock()
	defer l.mu.Unlock()
	reached, failed := map[string]bool{}, []target(nil)
	for _, o := range outcomes {
		t := targetOf(o.key)
		switch was, known := l.in[t]; {
		case o.err == nil:
			reached[lane] = true
			reached[was] = known
			delete(l.in, t)
		case errs.Is(o.err, errs.Unavailable):
			failed = append(failed, t)
			delete(l.in, t)
		}
	}
	out := l.leave(reached)
	l.enter(lane, failed)
	return out
}

// leave forgets the targets that were late in some lanes, and returns them in order.
func (l *late) leave(lanes map[string]bool) (out []target) {
	for t, lane := range l.in {
		if lanes[lane] {
			out = append(out, t)
			delete(l.in, t)
		}
	}
	slices.SortFunc(out, compareTargets)
	return out
}

func (l *late) enter(lane string, targets []target) {
	if l.in == nil {
		l.in = map[target]string{}
	}
	for _, t := range targets {
		l.in[t] = lane
	}
}
