package rsync

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// proceed looks at pairs that wait for a report: where it says what the next step needs,
// they go on to it; where it says that a hook failed, their way ends. The pairs are
// changed in place. Those of stopped deployments stay.
func (l *ledger) proceed(ctx context.Context, pairs []appcontext.Pair) error {
	if err := l.reports.read(ctx, waiting(pairs), true); err != nil {
		return err
	}
	for i, p := range pairs {
		if !p.Sent || p.Halted || p.Blocked == pair.Stopped {
			continue
		}
		step, _, err := l.ways.At(ctx, p, false)
		if err != nil {
			return err
		}
		if pairs[i], err = l.judged(ctx, p, step); err != nil {
			return err
		}
	}
	return nil
}

func waiting(pairs []appcontext.Pair) (out []appcontext.PairKey) {
	for _, p := range pairs {
		if p.Sent && !p.Halted && p.Blocked != pair.Stopped {
			out = append(out, p.Key)
		}
	}
	return out
}

// judged is the pair after a look at what its step needs.
func (l *ledger) judged(ctx context.Context, p appcontext.Pair, step steps.Step) (appcontext.Pair, error) {
	r := l.reports.of[p.Key].full
	v := pair.CheckStep(step, r)
	switch {
	case v.Met:
		p = pair.Reset(p)
		p.Step, p.Sent, p.At = p.Step+1, false, l.now()
	case v.Failed:
		_, clean := step.AfterFailure()
		p = pair.Reset(p)
		p.Halted, p.Sent, p.Phase, p.Error, p.At = true, !clean, appcontext.Failed, v.Why, l.now()
	default:
		p.Blocked = v.Why
		if never, err := l.reports.never(ctx, p.Key.Cluster); err != nil || never && r == nil {
			p.Blocked += "; " + pair.NoReport(true)
			return p, err
		}
	}
	return p, nil
}

// goOn has pairs proceed after something was reported, and returns the targets for
// which sinks have something to do now.
func (l *ledger) goOn(ctx context.Context, keys []appcontext.PairKey) ([]pair.Target, error) {
	var pairs []appcontext.Pair
	for _, k := range keys {
		if p, known := l.pair(k); known && p.Sent {
			pairs = append(pairs, p)
		}
	}
	if err := l.proceed(ctx, pairs); err != nil {
		return nil, err
	}
	pairs = l.changed(pairs)
	return pair.TargetsOf(pair.AllDeliverable(pairs)), l.write(ctx, entry{put: pairs})
}

// recheck has all pairs proceed that waited for a report when the last term ended: it
// may have been written without having been acted on.
func (l *ledger) recheck(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []appcontext.PairKey
	for _, apps := range l.pairs {
		for _, p := range apps {
			if p.Sent && !p.Halted {
				keys = append(keys, p.Key)
			}
		}
	}
	_, err := l.goOn(ctx, keys)
	return err
}

// arrive moves the pairs of targets past steps that need not be delivered: what they are
// for is reported already, or the cluster sees to it itself. direct says that the
// targets are reached directly.
func (l *ledger) arrive(ctx context.Context, at []pair.Target, direct bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var put []appcontext.Pair
	for _, t := range at {
		for _, p := range l.pairs[t] {
			if !pair.Deliverable(p) || p.Halted {
				continue
			}
			next, err := l.arrived(ctx, p, direct)
			if err != nil {
				return err
			}
			put = append(put, next)
		}
	}
	return l.write(ctx, entry{put: l.changed(put)})
}

func (l *ledger) arrived(ctx context.Context, p appcontext.Pair, direct bool) (appcontext.Pair, error) {
	way, err := l.ways.Of(ctx, p, !direct)
	for err == nil && pair.Deliverable(p) && p.Step < len(way)-1 {
		before := p.Step
		if p, err = l.pass(ctx, p, way, direct); p.Step == before {
			break
		}
	}
	return p, err
}

// pass moves a pair past its step if that need not be delivered.
func (l *ledger) pass(ctx context.Context, p appcontext.Pair, way []steps.Step, direct bool) (appcontext.Pair, error) {
	step := way[p.Step]
	if step.Kind == steps.Main || step.Kind == steps.Tidy {
		return p, nil
	}
	if direct && step.Kind == steps.Define && way[p.Step+1].Kind == steps.Main {
		return past(p), nil // the sink awaits definitions by itself
	}
	if !direct && !vital(step) {
		never, err := l.reports.never(ctx, p.Key.Cluster)
		if err != nil {
			return p, err
		}
		if never {
			return past(p, step.String()+" could not be awaited: "+pair.NoReport(true)), nil
		}
	}
	if err := l.reports.read(ctx, []appcontext.PairKey{p.Key}, true); err != nil {
		return p, err
	}
	switch v := pair.CheckStep(step, l.reports.of[p.Key].full); {
	case v.Met:
		return past(p), nil
	case v.Failed:
		return l.judged(ctx, p, step)
	}
	return p, nil
}

// vital reports whether a step has to be reported before the next one begins, even if
// nobody is there who could do so. What only has to be there may come together with what
// needs it: reconcilers try again what came too early.
func vital(s steps.Step) bool {
	return s.Kind != steps.Define && (s.Hook == nil || steps.Ends(s.Hook.ID))
}

// past is the pair at the next step, without this one having been delivered.
func past(p appcontext.Pair, found ...string) appcontext.Pair {
	p.Findings = pair.MergeFindings(p, pair.Result{Step: p.Step, Findings: found})
	p.Step++
	return p
}
