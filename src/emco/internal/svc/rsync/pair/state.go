// Package pair holds the states of one app on one cluster, and how they change: which
// pairs a deployment wants, what a delivery proves, when to try again after a failure, and
// what a report means for a step. It also words errors and waits for users. It reads and
// writes nothing: package pairs applies the changes to the pairs of a shard, and appcontext/pairstore stores them.
//
// A pair that is not Applied is unfinished: something must still happen. Such a pair is in one of five states:
//
//	deliverable  its current step can be delivered now, or after its next retry
//	at a gate    it waits for other pairs before its first step; Blocked names them
//	sent         the step was delivered; the report that the next step needs is missing,
//	             and Blocked names it
//	halted       a hook failed: only another revision continues
//	stopped      its deployment was stopped; Blocked is Stopped
package pair

import (
	"cmp"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// Stopped is why a pair is blocked after its deployment was stopped.
const Stopped = "stopped"

// Reset makes a pair due, as if it had never failed.
func Reset(p appcontext.Pair) appcontext.Pair {
	p.Attempt, p.Error, p.Reason, p.NextRetry, p.Blocked, p.Waiting, p.Outcome = 0, "", "", time.Time{}, "", "", nil
	p.Phase = openPhase(p)
	return p
}

// Due makes a failed pair due now, as if it had not failed. A halted one keeps the reason of
// its hook: its cleanup is due.
func Due(p appcontext.Pair) appcontext.Pair {
	if p.Halted {
		p.Attempt, p.NextRetry = 0, time.Time{}
		return p
	}
	return Reset(p)
}

// openPhase is the phase of a pair that is on its way.
func openPhase(p appcontext.Pair) appcontext.Phase {
	if p.Desired == "" {
		return appcontext.Deleting
	}
	return appcontext.Pending
}

// Deliverable reports whether a pair has a step to deliver.
func Deliverable(p appcontext.Pair) bool {
	return p.Phase != appcontext.Applied && !p.Sent && p.Blocked == ""
}

// Urgent reports whether a pair is due to be removed or rolled back.
func Urgent(p appcontext.Pair) bool {
	return Deliverable(p) && (p.Desired == "" || p.Change == appcontext.RollBack)
}

// AllDeliverable returns the pairs with a step to deliver.
func AllDeliverable(pairs []appcontext.Pair) (out []appcontext.Pair) {
	for _, p := range pairs {
		if Deliverable(p) {
			out = append(out, p)
		}
	}
	return out
}

// Started reports whether anything may have been delivered since the pair's last change.
func Started(p appcontext.Pair) bool { return p.Step > 0 || p.Sent }

// AtGate reports whether a pair waits for other pairs before it starts.
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

// CompareKeys orders pairs by cluster, deployment and app.
func CompareKeys(a, b appcontext.Pair) int { return compareKeys(a.Key, b.Key) }

func compareKeys(a, b appcontext.PairKey) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Deployment, b.Deployment), cmp.Compare(a.App, b.App))
}

// Tried reports whether one of the pairs has failed since its last change.
func Tried(pairs []appcontext.Pair) bool {
	return slices.ContainsFunc(pairs, func(p appcontext.Pair) bool { return p.Attempt > 0 && Deliverable(p) })
}
