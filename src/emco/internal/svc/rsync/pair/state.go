// Package pair holds the states of one app on one cluster, and how they change: which
// pairs a deployment wants, what a delivery proves, when to try again after a failure, and
// what a report says about a step. It reads and writes nothing.
package pair

import (
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// stopped is why a pair does not go on after its deployment was stopped.
const Stopped = "stopped"

// reset makes a pair due, as if it had never failed.
func Reset(p appcontext.Pair) appcontext.Pair {
	p.Attempt, p.Error, p.Reason, p.NextRetry, p.Blocked = 0, "", "", time.Time{}, ""
	p.Phase = openPhase(p)
	return p
}

// openPhase is the phase of a pair whose way goes on.
func openPhase(p appcontext.Pair) appcontext.Phase {
	if p.Desired == "" {
		return appcontext.Deleting
	}
	return appcontext.Pending
}

// deliverable reports whether sinks have to do something for a pair.
func Deliverable(p appcontext.Pair) bool {
	return p.Phase != appcontext.Applied && !p.Sent && p.Blocked == ""
}

func AllDeliverable(pairs []appcontext.Pair) (out []appcontext.Pair) {
	for _, p := range pairs {
		if Deliverable(p) {
			out = append(out, p)
		}
	}
	return out
}

// started reports whether a sink may have done anything on a pair's way.
func Started(p appcontext.Pair) bool { return p.Step > 0 || p.Sent }

// atGate reports whether a pair has not begun its way and waits for others.
func AtGate(p appcontext.Pair) bool {
	return p.Phase != appcontext.Applied && !Started(p) && !p.Halted && p.Blocked != "" && p.Blocked != Stopped
}

// addHeld adds a bundle to those that may be on the cluster.
func addHeld(have []appcontext.Digest, bundle appcontext.Digest) []appcontext.Digest {
	if slices.Contains(have, bundle) {
		return have
	}
	return append(slices.Clone(have), bundle)
}

func CompareKeys(a, b appcontext.Pair) int {
	return slices.Compare([]string{a.Key.Cluster, a.Key.UID, a.Key.App}, []string{b.Key.Cluster, b.Key.UID, b.Key.App})
}
