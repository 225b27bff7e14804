package content

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
)

// StepPlans knows the steps of pairs.
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
func (w *StepPlans) Of(ctx context.Context, p appcontext.Pair, pulls bool) ([]steps.Step, error) {
	k := planKey{p.Change, p.From, p.Desired, pulls}
	if way, ok := w.known.get(k); ok {
		return way, nil
	}
	from, err := w.Bundle(ctx, k.from)
	if err != nil {
		return nil, err
	}
	to, err := w.Bundle(ctx, k.to)
	if err != nil {
		return nil, err
	}
	way := steps.Of(steps.Transition{Change: k.change, From: from, To: to, Pulls: pulls})
	if err := w.spare(ctx, way); err != nil {
		return nil, err
	}
	w.known.put(k, way)
	return way, nil
}

// spare takes objects that ask to be kept out of those whose end is waited for.
func (w *StepPlans) spare(ctx context.Context, way []steps.Step) error {
	for i := range way {
		s := &way[i]
		if s.Kind != steps.Main || s.Need != steps.Gone {
			continue
		}
		kept, err := w.reader.kept(ctx, s.About)
		if err != nil {
			return err
		}
		s.About = slices.DeleteFunc(slices.Clone(s.About), func(r appcontext.Ref) bool { return kept[steps.Key(r.ID)] })
	}
	return nil
}

// Bundle reads a bundle; the one without a digest is empty.
func (w *StepPlans) Bundle(ctx context.Context, d appcontext.Digest) (appcontext.Bundle, error) {
	if d == "" {
		return appcontext.Bundle{}, nil
	}
	if b, ok := w.bundles.get(d); ok {
		return b, nil
	}
	b, err := w.reader.store.GetBundle(ctx, d)
	if err == nil {
		w.bundles.put(d, b)
	}
	return b, err
}

// At returns the step that a pair is at, and whether it is the last one.
func (w *StepPlans) At(ctx context.Context, p appcontext.Pair, pulls bool) (steps.Step, bool, error) {
	way, err := w.Of(ctx, p, pulls)
	if err != nil {
		return steps.Step{}, false, err
	}
	n := min(p.Step, len(way)-1)
	step := way[n]
	if p.Halted {
		step, _ = step.AfterFailure()
	}
	return step, n == len(way)-1, nil
}
