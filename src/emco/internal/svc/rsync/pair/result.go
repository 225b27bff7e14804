package pair

import (
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
)

// result is what a sink says of one pair: the bundle that was worked on (empty for
// a removal), and either proof or an error.
type Result struct {
	Key       appcontext.PairKey
	Bundle    appcontext.Digest
	Rev       int64 // for which the bundle was wished
	Step      int   // of the way to it
	moreSteps bool  // it was not the last step
	mainStep  bool  // of a way with several steps: it was the one that brings or removes the app itself
	Commit    string
	Apps      []string // of the target: all that have files after this, for the cluster's platform
	Findings  []string
	Err       error
}

// resultOf is what comes true of a pair when its step is delivered.
func ResultOf(p appcontext.Pair, step steps.Step, last bool) Result {
	return Result{Key: p.Key, Bundle: p.Desired, Rev: p.Rev, Step: p.Step, moreSteps: !last, mainStep: step.Kind == steps.Main}
}

// failures makes an outcome of each pair for which something was to be done.
func Failures(pairs []appcontext.Pair, err error) []Result {
	var out []Result
	for _, p := range AllDeliverable(pairs) {
		out = append(out, Result{Key: p.Key, Bundle: p.Desired, Rev: p.Rev, Step: p.Step, Err: err})
	}
	return out
}

// applyResult writes proof into a pair. It returns false if the pair is to be
// forgotten, because nothing of it is left. When the wish changed meanwhile the pair
// stays due, and keeps note of what may be on the cluster.
func Apply(p appcontext.Pair, o Result, now time.Time) (appcontext.Pair, bool) {
	p.At = now
	if !o.moreSteps || o.mainStep {
		p.Applied = o.Bundle
	}
	p.Commit, p.Edit = o.Commit, editAfterDelivery(p.Edit, o.Commit)
	switch {
	case p.Desired != o.Bundle || o.moreSteps && (p.Change == "" || p.Rev != o.Rev || p.Step != o.Step):
		p.Findings = o.Findings
		return superseded(p), true
	case o.moreSteps:
		return delivered(p, o), true
	case o.Bundle == "":
		return p, false
	}
	p = Reset(p)
	p.Findings = MergeFindings(p, o)
	p.Held, p.Phase = []appcontext.Digest{o.Bundle}, appcontext.Applied
	p.Change, p.From, p.Step, p.Sent, p.Halted = "", "", 0, false, false
	return p, true
}

// superseded renews a pair of which something else was delivered than it is to hold by
// now: a way that has not begun begins from there.
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

// delivered notes that a step was delivered and that what the next one needs is awaited.
func delivered(p appcontext.Pair, o Result) appcontext.Pair {
	p.Findings = MergeFindings(p, o)
	if !p.Halted {
		p = Reset(p)
	}
	p.Sent, p.NextRetry, p.Attempt = true, time.Time{}, 0
	return p
}

// mergeFindings are those of the steps so far.
func MergeFindings(p appcontext.Pair, o Result) []string {
	if o.Step == 0 {
		return o.Findings
	}
	out := slices.Clone(p.Findings)
	for _, f := range o.Findings {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
