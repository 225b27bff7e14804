package statusview

import (
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// An instance that is not the latest one is asked for what of it is there now. An object
// of it is
//
//	Applied   there is proof that this very content is there, because what runs now has it too
//	Deleted   there is proof of something else, or of nothing
//	Pending, Retrying, Failed   neither: it may be there until what is to take its place is proved
//
// and the deployment as a whole is Instantiated if all of it is there, Terminated if
// nothing of any revision is wanted any more, and Updated otherwise.

// pastStates returns the state of each object of a place, in the order of objectsOf.
func (s Snapshot) pastStates(p placeStatus) []objectState {
	refs := objectsOf(s.bundles[p.bundle])
	out := make([]objectState, len(refs))
	for i, ref := range refs {
		out[i] = s.pastState(p.pair, ref)
	}
	return out
}

// objectState is a state with the reason for it, if there is one to tell.
type objectState struct {
	state, reason string
	held          bool // the cluster says that it has the content that is asked for
}

func (s Snapshot) pastState(p *appcontext.Pair, ref appcontext.Ref) objectState {
	if p == nil {
		return objectState{state: "Deleted"}
	}
	same, other := s.holds(p.Applied, ref)
	if same {
		return objectState{state: string(appcontext.Applied)}
	}
	for _, d := range p.Held {
		if maybe, _ := s.holds(d, ref); maybe {
			return objectState{state: possibly(p.Phase), reason: "it may be there until what takes its place is proved to be there"}
		}
	}
	if other {
		return objectState{state: "Deleted", reason: otherContent}
	}
	return objectState{state: "Deleted"}
}

func possibly(phase appcontext.Phase) string {
	if phase == appcontext.Retrying || phase == appcontext.Failed {
		return string(phase)
	}
	return string(appcontext.Pending)
}

// holds reports whether a bundle has an object with the same content, or else with other
// content.
func (s Snapshot) holds(d appcontext.Digest, ref appcontext.Ref) (same, other bool) {
	for _, have := range objectsOf(s.bundles[d]) {
		if identityOf(have.ID) == identityOf(ref.ID) {
			return have.Digest == ref.Digest, have.Digest != ref.Digest
		}
	}
	return false, false
}

// objectsOf returns what a bundle puts on a cluster for good: its hooks come and go.
func objectsOf(b appcontext.Bundle) []appcontext.Ref {
	if len(b.CRDs) == 0 {
		return b.Objects
	}
	return slices.Concat(b.CRDs, b.Objects)
}

func (s Snapshot) pastDeployed() string {
	for _, a := range s.apps {
		for _, p := range a.places {
			for _, o := range p.past {
				if o.state == string(appcontext.Applied) {
					continue
				}
				if s.Head.Gone && len(s.left) == 0 {
					return v2.StatusTerminated
				}
				return v2.StatusUpdated
			}
		}
	}
	return v2.StatusInstantiated
}
