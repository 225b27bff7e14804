package content

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
)

// StepPlans decides the steps of pairs' changes, and caches them. pulls in its methods means
// that the pair's cluster reads its state from Git.
type StepPlans struct {
	reader  *Reader
	known   cache[planKey, []steps.Step]
	bundles cache[appcontext.Digest, appcontext.Bundle]
}

// NewStepPlans returns the plans for the bundles of a reader.
func NewStepPlans(r *Reader) *StepPlans { return &StepPlans{reader: r} }

// planKey is all that a plan depends on.
type planKey struct {
	change   appcontext.Change
	from, to appcontext.Digest
	pulls    bool
}

// Of returns the steps of a pair's change. Callers must not change them.
func (s *StepPlans) Of(ctx context.Context, p appcontext.Pair, pulls bool) ([]steps.Step, error) {
	k := planKey{p.Change, p.From, p.Desired, pulls}
	if plan, ok := s.known.get(k); ok {
		return plan, nil
	}
	from, err := s.Bundle(ctx, k.from)
	if err != nil {
		return nil, err
	}
	to, err := s.Bundle(ctx, k.to)
	if err != nil {
		return nil, err
	}
	plan := steps.Of(steps.Transition{Change: k.change, From: from, To: to, Pulls: pulls})
	if err := s.spare(ctx, plan); err != nil {
		return nil, err
	}
	size := 0
	for _, step := range plan {
		size += refSize * (1 + len(step.About))
	}
	s.known.put(k, plan, size)
	return plan, nil
}

// spare removes objects that ask to be kept from those that a main step waits to be gone.
func (s *StepPlans) spare(ctx context.Context, plan []steps.Step) error {
	for i := range plan {
		step := &plan[i]
		if step.Kind != steps.Main || step.Need != steps.Gone {
			continue
		}
		kept, err := s.reader.kept(ctx, step.About)
		if err != nil {
			return err
		}
		step.About = slices.DeleteFunc(slices.Clone(step.About), func(r appcontext.Ref) bool { return kept[steps.Key(r.ID)] })
	}
	return nil
}

// Bundle reads a bundle; the one without a digest is empty.
func (s *StepPlans) Bundle(ctx context.Context, d appcontext.Digest) (appcontext.Bundle, error) {
	if d == "" {
		return appcontext.Bundle{}, nil
	}
	if b, ok := s.bundles.get(d); ok {
		return b, nil
	}
	b, err := s.reader.store.GetBundle(ctx, d)
	if err == nil {
		s.bundles.put(d, b, refSize*(len(b.Objects)+len(b.CRDs)+len(b.Hooks)))
	}
	return b, err
}

// At returns the step that a pair is at, and whether it is the last one.
func (s *StepPlans) At(ctx context.Context, p appcontext.Pair, pulls bool) (steps.Step, bool, error) {
	plan, err := s.Of(ctx, p, pulls)
	if err != nil {
		return steps.Step{}, false, err
	}
	n := min(p.Step, len(plan)-1)
	step := plan[n]
	if p.Halted {
		step, _ = step.AfterFailure()
	}
	return step, n == len(plan)-1, nil
}
