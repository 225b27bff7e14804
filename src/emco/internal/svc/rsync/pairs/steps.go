package pairs

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// RecheckReports advances all pairs that wait for a report: one may have been written at
// the end of the last term, and not been acted on.
func (s *Store) RecheckReports(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	var keys []appcontext.PairKey
	for t := range s.index.all() {
		for _, p := range t.pairs {
			if common := p.state.Common(); common.Sent && !common.Halted {
				keys = append(keys, appcontext.PairKey{Cluster: t.Cluster, Deployment: t.Deployment, App: p.app})
			}
		}
	}
	_, err := s.advanceReported(ctx, keys)
	return err
}

// advanceReported advances pairs on which something was reported, and returns the targets
// that must be delivered now. The caller holds writing.
func (s *Store) advanceReported(ctx context.Context, keys []appcontext.PairKey) ([]pair.Target, error) {
	var waiting []appcontext.Pair
	for _, k := range keys {
		if p, known := s.index.pair(k); known && p.Sent {
			waiting = append(waiting, p)
		}
	}
	if err := s.steps().advance(ctx, waiting); err != nil {
		return nil, err
	}
	put := s.changed(waiting)
	return pair.TargetsOf(pair.AllDeliverable(put)), s.write(ctx, change{put: put})
}

// SkipSteps moves the pairs of targets past steps that need no delivery: their effect is
// reported already, or delivering the next step includes it. pulls means that the targets'
// clusters read their state from Git.
func (s *Store) SkipSteps(ctx context.Context, targets []pair.Target, pulls bool) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	put := s.index.those(func(p *appcontext.Pair) bool {
		return pair.Deliverable(*p) && !p.Halted && !s.steps().atLast(ctx, p, pulls) // most have one step
	}, targets...)
	for i, p := range put {
		var err error
		if put[i], err = s.steps().skip(ctx, p, pulls); err != nil {
			return err
		}
	}
	return s.write(ctx, change{put: s.changed(put)})
}

// steps returns a stepper. The caller holds writing while it uses it: the stepper reads
// and fills the report cache.
func (s *Store) steps() stepper { return stepper{s.cfg.Plans, &s.reports, s.cfg.Now} }

// stepper moves pairs from step to step by what clusters reported. The pairs that it
// returns are not written yet.
type stepper struct {
	plans   *content.StepPlans
	reports *reportCache
	now     func() time.Time
}

// advance checks the reports on pairs that wait for one: where a report shows what the
// next step needs, the pair goes on to it; where it shows that a hook failed, the pair is
// halted. Pairs are changed in place. Those of stopped deployments stay.
func (st stepper) advance(ctx context.Context, pairs []appcontext.Pair) error {
	waits := func(p appcontext.Pair) bool { return p.Sent && !p.Halted && p.Blocked != pair.Stopped }
	var keys []appcontext.PairKey
	for _, p := range pairs {
		if waits(p) {
			keys = append(keys, p.Key)
		}
	}
	if err := st.reports.load(ctx, keys, true); err != nil {
		return err
	}
	for i, p := range pairs {
		if !waits(p) {
			continue
		}
		// Whether the cluster pulls changes neither the number of steps nor what they need, and
		// only that matters here.
		step, _, err := st.plans.At(ctx, p, false)
		if err != nil {
			return err
		}
		if pairs[i], err = st.check(ctx, p, step); err != nil {
			return err
		}
	}
	return nil
}

// check returns a pair after its report was compared with what its step needs.
func (st stepper) check(ctx context.Context, p appcontext.Pair, step steps.Step) (appcontext.Pair, error) {
	last, _ := st.reports.last(p.Key)
	report := last.report
	switch c := pair.CheckStep(step, report); {
	case c.Met:
		p = pair.Reset(p)
		p.Step, p.Sent, p.At = p.Step+1, false, st.now()
	case c.Failed:
		_, cleanup := step.AfterFailure()
		p = pair.Reset(p)
		p.Halted, p.Sent, p.Phase, p.Error, p.At = true, !cleanup, appcontext.Failed, c.Why, st.now()
	default:
		p.Blocked = c.Why
		never, err := st.reports.neverReported(ctx, p.Key.Cluster)
		if err != nil {
			return p, err
		}
		if never && report == nil {
			p.Blocked += "; " + pair.NoReport(true)
		}
	}
	return p, nil
}

// atLast reports whether a pair is at its last step, so that there is none to skip.
func (st stepper) atLast(ctx context.Context, p *appcontext.Pair, pulls bool) bool {
	plan, err := st.plans.Of(ctx, *p, pulls)
	return err == nil && p.Step >= len(plan)-1
}

// skip moves a pair past all steps that need no delivery.
func (st stepper) skip(ctx context.Context, p appcontext.Pair, pulls bool) (appcontext.Pair, error) {
	plan, err := st.plans.Of(ctx, p, pulls)
	for err == nil && pair.Deliverable(p) && p.Step < len(plan)-1 {
		before := p.Step
		if p, err = st.skipOne(ctx, p, plan, pulls); p.Step == before {
			break
		}
	}
	return p, err
}

// skipOne moves a pair past its step if that needs no delivery. The main step and the
// final cleanup are always delivered: a report that shows their objects may be older than
// what else they change.
func (st stepper) skipOne(ctx context.Context, p appcontext.Pair, plan []steps.Step, pulls bool) (appcontext.Pair, error) {
	step := plan[p.Step]
	if step.Kind == steps.Main || step.Kind == steps.Tidy {
		return p, nil
	}
	if !pulls && step.Kind == steps.Define && plan[p.Step+1].Kind == steps.Main {
		return skipped(p), nil // the kube sink waits for definitions itself
	}
	if pulls && !mustBeReported(step) {
		never, err := st.reports.neverReported(ctx, p.Key.Cluster)
		if err != nil {
			return p, err
		}
		if never {
			return skipped(p, step.String()+" was not waited for: "+pair.NoReport(true)), nil
		}
	}
	if err := st.reports.load(ctx, []appcontext.PairKey{p.Key}, true); err != nil {
		return p, err
	}
	last, _ := st.reports.last(p.Key)
	switch c := pair.CheckStep(step, last.report); {
	case c.Met:
		return skipped(p), nil
	case c.Failed:
		return st.check(ctx, p, step)
	}
	return p, nil
}

// mustBeReported reports whether the next step must wait for a report on this one, even if
// nothing on the cluster reports. Objects that only have to exist may be delivered with
// those that need them: reconcilers try again what came too early.
func mustBeReported(step steps.Step) bool {
	return step.Kind != steps.Define && (step.Hook == nil || steps.Ends(step.Hook.ID))
}

// skipped returns a pair at the next step, although this one was not delivered.
func skipped(p appcontext.Pair, finding ...string) appcontext.Pair {
	p.Findings = pair.MergeFindings(p, pair.Result{Step: p.Step, Findings: finding})
	p.Step++
	return p
}
