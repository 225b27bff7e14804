package gitwriter

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/git"
)

// targetPlan is what a backend makes of a target.
type targetPlan struct {
	edits   []git.Edit
	apps    []string         // that have files, in order
	refused map[string]error // apps that the backend refuses
}

// plan asks the backend for the target's files. An app that the backend refuses stays as it
// is on the branch, and the error has the reason.
func (w *Writer) plan(ctx context.Context, t pair.Target, r route.Route, pairs []appcontext.Pair) (targetPlan, error) {
	at := w.Pairs.Address(t, r)
	apps, err := w.apps(ctx, pairs, nil)
	if err != nil {
		return targetPlan{}, err
	}
	change, err := r.Backend.Plan(at, apps)
	if err == nil {
		return targetPlan{edits: change.Edits, apps: names(apps)}, nil
	}
	refused := map[string]error{}
	for _, a := range apps {
		if _, err := r.Backend.Plan(at, []syncer.App{a}); err != nil {
			refused[a.Name] = err
		}
	}
	if len(refused) == 0 { // no single app causes it
		return targetPlan{}, err
	}
	if apps, err = w.apps(ctx, pairs, refused); err != nil {
		return targetPlan{}, err
	}
	change, err = r.Backend.Plan(at, apps)
	return targetPlan{edits: change.Edits, apps: names(apps), refused: refused}, err
}

// apps reads what the target must hold now of each pair; pairs without content are left
// out. Refused apps keep what they are known to have.
func (w *Writer) apps(ctx context.Context, pairs []appcontext.Pair, refused map[string]error) ([]syncer.App, error) {
	out := make([]syncer.App, 0, len(pairs))
	for _, p := range pairs {
		app, err := w.desired(ctx, p, refused[p.Key.App] != nil)
		if err != nil {
			return nil, err
		}
		if len(app.Objects)+len(app.CRDs) > 0 {
			app.Name, app.DependsOn = p.Key.App, w.Pairs.Needs(p.Key)
			out = append(out, app)
		}
	}
	return out, nil
}

// desired is what a cluster must hold of a pair now: before the pair's change has started,
// what it held before; afterwards, what its current step contains.
func (w *Writer) desired(ctx context.Context, p appcontext.Pair, refused bool) (syncer.App, error) {
	switch {
	case refused, !pair.Started(p) && !pair.Deliverable(p) && p.Phase != appcontext.Applied:
		return w.bundle(ctx, p.Applied)
	case p.Phase == appcontext.Applied:
		return w.bundle(ctx, p.Desired)
	}
	step, last, err := w.Plans.At(ctx, p, true)
	if err != nil {
		return syncer.App{}, err
	}
	if last && len(step.Keep) == 0 {
		return w.bundle(ctx, p.Desired)
	}
	return w.Content.AppOf(ctx, step.Set())
}

// bundle returns the settled content of a bundle; none for the empty digest.
func (w *Writer) bundle(ctx context.Context, d appcontext.Digest) (syncer.App, error) {
	if d == "" {
		return syncer.App{}, nil
	}
	return w.Content.SettledApp(ctx, d)
}

// names returns the names of apps, in order.
func names(apps []syncer.App) []string {
	out := make([]string, len(apps))
	for i, a := range apps {
		out[i] = a.Name
	}
	return out
}
