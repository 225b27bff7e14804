package pair

import (
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
)

// Result is the outcome of delivering one pair: the bundle (empty for a removal), and either proof
// or an error.
type Result struct {
	Key       appcontext.PairKey
	Bundle    appcontext.Digest
	Rev       int64 // that wanted the bundle
	Step      int   // of the change
	moreSteps bool  // it was not the last one
	mainStep  bool  // it was the one that installs or removes the app itself
	Commit    string
	Apps      []string // of the target that have files now, for the cluster's platform
	Findings  []string
	Err       error
	Outcome   *appcontext.Outcome // of the objects, with Err; nil: Err concerns all
}

// ResultOf returns the result of a pair whose step is delivered; the sink adds the proof.
func ResultOf(p appcontext.Pair, step steps.Step, last bool) Result {
	return Result{Key: p.Key, Bundle: p.Desired, Rev: p.Rev, Step: p.Step, moreSteps: !last, mainStep: step.Kind == steps.Main}
}

// Failures returns a failure for each pair that has a step to deliver.
func Failures(pairs []appcontext.Pair, err error) []Result {
	var out []Result
	for _, p := range pairs {
		if Deliverable(p) {
			out = append(out, Result{Key: p.Key, Bundle: p.Desired, Rev: p.Rev, Step: p.Step, Err: err})
		}
	}
	return out
}

// Apply changes a pair by the result of a delivery. It returns false if nothing of the pair
// is left. If something else is desired by then, the pair stays due and remembers what may
// be on the cluster.
func Apply(p appcontext.Pair, r Result, now time.Time) (appcontext.Pair, bool) {
	p.At, p.Waiting = now, ""
	if !r.moreSteps || r.mainStep {
		p.Applied = r.Bundle
	}
	p.Commit, p.Edit = r.Commit, editAfterDelivery(p.Edit, r.Commit)
	switch {
	case IsSuperseded(p, r):
		p.Findings = r.Findings
		return superseded(p), true
	case r.moreSteps:
		return delivered(p, r), true
	case r.Bundle == "":
		return p, false
	}
	p = Reset(p)
	p.Findings = MergeFindings(p, r)
	p.Held, p.Phase = []appcontext.Digest{r.Bundle}, appcontext.Applied
	p.Change, p.From, p.Step, p.Sent, p.Halted = "", "", 0, false, false
	return p, true
}

// IsSuperseded reports whether something else was desired of a pair, or its change was at another step, before
// the delivery ended. If that failed, the failure does not concern what is desired now.
func IsSuperseded(p appcontext.Pair, r Result) bool {
	return p.Desired != r.Bundle || r.moreSteps && (p.Change == "" || p.Rev != r.Rev || p.Step != r.Step)
}

// superseded returns a pair after a delivery of something that is no longer desired. A
// change that has not started starts from what was delivered.
func superseded(p appcontext.Pair) appcontext.Pair {
	blocked := p.Blocked
	if p.Change != "" && !Started(p) {
		p.Change, p.From = changeFor(p.Desired, p.Applied, p.Change == appcontext.RollBack), p.Applied
	}
	if !p.Halted {
		p = Reset(p)
	}
	p.Blocked = blocked
	return p
}

// delivered returns a pair that waits for a report on the step that was delivered.
func delivered(p appcontext.Pair, r Result) appcontext.Pair {
	p.Findings = MergeFindings(p, r)
	if !p.Halted {
		p = Reset(p)
	}
	p.Sent, p.NextRetry, p.Attempt = true, time.Time{}, 0
	return p
}

// MergeFindings returns the findings of all steps so far.
func MergeFindings(p appcontext.Pair, r Result) []string {
	if r.Step == 0 {
		return r.Findings
	}
	out := slices.Clone(p.Findings)
	for _, f := range r.Findings {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
