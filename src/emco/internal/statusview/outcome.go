package statusview

import (
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// outcomes returns rsync's status of each object of a place whose objects may differ: some were
// refused, or a hook failed before or after they were delivered.
func (p *placeStatus) outcomes() func(i int, ref appcontext.Ref) objectState {
	phase := appcontext.Phase(p.state)
	failed := phase == appcontext.Failed || phase == appcontext.Retrying
	rest := objectState{state: p.state}
	switch {
	case failed && p.pair.Applied == p.bundle:
		rest.state = string(appcontext.Applied)
	case failed && p.pair.Halted:
		rest.state = string(appcontext.Pending)
	case failed && p.pair.Outcome != nil:
		return outcomesOf(*p.pair.Outcome, p.state)
	}
	return func(int, appcontext.Ref) objectState { return rest }
}

// outcomesOf returns the status of each object after an attempt. Refused ones have the status
// of their app.
func outcomesOf(o appcontext.Outcome, refused string) func(i int, ref appcontext.Ref) objectState {
	known := map[manifest.ObjectKey]objectState{}
	for _, id := range o.Accepted {
		known[id.Key()] = objectState{state: string(appcontext.Applied)}
	}
	for _, r := range o.Refused {
		known[r.ID.Key()] = objectState{state: refused, reason: r.Reason}
	}
	rest := objectState{state: string(appcontext.Applied)}
	if o.Ended {
		rest.state = string(appcontext.Pending)
	}
	return func(_ int, ref appcontext.Ref) objectState {
		if s, ok := known[ref.ID.Key()]; ok {
			return s
		}
		return rest
	}
}
