package rsync

import (
	"maps"
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// late remembers for which targets a repository could not be reached. When it can be
// reached for one of them, the others need not wait for their time: all catch up
// together.
type late struct {
	mu sync.Mutex
	of map[string]map[target]bool // by lane
}

// note takes in what came of some targets of a lane, and returns those that are worth
// another try because of it.
func (l *late) note(lane string, outcomes []outcome) []target {
	l.mu.Lock()
	defer l.mu.Unlock()
	reached, failed := false, map[target]bool{}
	for _, o := range outcomes {
		switch t := targetOf(o.key); {
		case o.err == nil:
			reached = true
			delete(l.of[lane], t)
		case errs.Is(o.err, errs.Unavailable):
			failed[t] = true
			delete(l.of[lane], t)
		}
	}
	var out []target
	if reached {
		out = slices.SortedFunc(maps.Keys(l.of[lane]), compareTargets)
		delete(l.of, lane)
	}
	l.add(lane, failed)
	return out
}

func (l *late) add(lane string, targets map[target]bool) {
	if len(targets) == 0 {
		return
	}
	if l.of == nil {
		l.of = map[string]map[target]bool{}
	}
	if l.of[lane] == nil {
		l.of[lane] = map[target]bool{}
	}
	maps.Copy(l.of[lane], targets)
}
