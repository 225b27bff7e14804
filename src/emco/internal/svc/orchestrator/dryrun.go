package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/objectdiff"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/revision"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	maxDryRuns    = 8                // at the same time; others wait
	maxDryRunsOf  = 2                // of one project
	dryRunTimeout = 50 * time.Second // of one, including the wait; our clients wait longer for an answer
)

// dryRunner limits dry runs and holds the renderer that they use.
type dryRunner struct {
	renderer render.Renderer
	shares   *fairshare.Shares // one permit per running dry run, by project
}

func newDryRunner(renderer render.Renderer) dryRunner {
	return dryRunner{renderer: renderer, shares: fairshare.New(fairshare.Options{Permits: maxDryRuns, PerTenant: maxDryRunsOf})}
}

// edition returns the edition of the renderer; empty without one.
func (d dryRunner) edition() string {
	if d.renderer == nil {
		return ""
	}
	return d.renderer.Edition()
}

// acquire waits for a permit of a project and returns the function that frees it; Throttled if
// ctx ends first.
func (d dryRunner) acquire(ctx context.Context, project string) (release func(), err error) {
	release, err = d.shares.Acquire(ctx, project, fairshare.Fresh)
	if err != nil {
		return nil, errs.Throttle("", "", 10*time.Second, errors.New("too many dry runs are under way; try again later"))
	}
	return release, nil
}

// orDryRun answers with the plan of an action if the request asks for a dry run, and acts otherwise.
func (g *Groups) orDryRun(a lifecycle.Action, act web.HandlerFunc) web.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		dry, err := web.AsksDryRun(r)
		if err != nil {
			return err
		}
		if !dry {
			return act(w, r)
		}
		doc, err := g.group(r)
		if err != nil {
			return err
		}
		return g.dryRun(w, r, doc, a)
	}
}

// dryRun answers with what an action would do, as a v2.Plan, and writes nothing. It refuses
// what the action would refuse, with the same texts; only a missing confirmation is part of
// the plan.
func (g *Groups) dryRun(w http.ResponseWriter, r *http.Request, doc store.Doc, a lifecycle.Action) error {
	withObjects, output := true, r.URL.Query().Get("output")
	switch output {
	case "", "all", "classes":
	case "summary":
		withObjects = false
	default:
		return errs.New(errs.Invalid, "Invalid query output")
	}
	req, err := g.readActionRequest(w, r, a)
	if err != nil {
		return err
	}
	out, err := g.limitedDryRun(r.Context(), doc, req, withObjects)
	if err != nil {
		return err
	}
	w.Header().Set(web.HeaderPlan, out.Digest)
	if output == "classes" {
		short, err := g.plans.Keep(doc.Key, out)
		if err != nil {
			return err
		}
		return web.JSON(w, http.StatusOK, short)
	}
	return web.JSON(w, http.StatusOK, out)
}

// limitedDryRun returns the plan of an action, within the limits of dry runs.
func (g *Groups) limitedDryRun(ctx context.Context, doc store.Doc, req actionRequest, withObjects bool) (out v2.Plan, err error) {
	limited, cancel := context.WithTimeout(ctx, dryRunTimeout)
	defer cancel()
	release, err := g.dryRunner.acquire(limited, doc.Key.Project())
	if err != nil {
		return out, err
	}
	defer release()
	result, err := g.planDryRun(limited, doc, req)
	if err == nil {
		if out, err = result.answer(limited, withObjects); err == nil {
			return out, nil
		}
	}
	if limited.Err() != nil && ctx.Err() == nil {
		return out, errs.New(errs.Unavailable, "the dry run took longer than "+dryRunTimeout.String()+"; the server is busy, or the apps are many: try again later")
	}
	return out, err
}

// dryRunResult is the revision that is desired now and the one that the action would publish.
type dryRunResult struct {
	identity v2.StatusSubject
	digest   string
	action   lifecycle.Action
	before   appcontext.Head
	current  []appcontext.Placement
	plan     plan.Plan // that the draft was made from; empty for a rollback
	from     int64     // of a rollback
	draft    revision.Draft
	confirm  string // why the action must be forced; empty if it need not
	blobs    *objectdiff.Overlay
}

// planDryRun does everything that the action would do, except writes.
func (g *Groups) planDryRun(ctx context.Context, doc store.Doc, req actionRequest) (dryRunResult, error) {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return dryRunResult{}, err
	}
	if err := g.checkAllowed(ctx, head, req.request.Action); err != nil {
		return dryRunResult{}, err
	}
	if err := g.reviewable(ctx, doc, req); err != nil {
		return dryRunResult{}, err
	}
	out := dryRunResult{action: req.request.Action, before: head, from: req.from}
	if req.request.Action == lifecycle.Migrate { // the revision would be the target's
		target, err := g.migrationTarget(ctx, doc, req.target)
		if err != nil {
			return dryRunResult{}, err
		}
		doc, head = target.Doc, inheritingHead(target.Head, head)
	}
	group := head
	op := newOperation(head, req)
	if !head.Owns() {
		head.Inherited, head.MovedTo = v2.DeploymentID(op.Instance), ""
	}
	head.Op = &op
	if out.identity, err = subjectOf(doc); err != nil {
		return dryRunResult{}, err
	}
	out.blobs = objectdiff.NewOverlay(g.contexts)
	b := revision.Builder{Contexts: g.contexts, Renderer: g.dryRunner.renderer, Blobs: out.blobs, Values: g.values, Placed: g.placed, Recipients: g.planner.Recipients}
	if out.draft, out.plan, err = g.draft(ctx, b, head, doc); err != nil {
		return dryRunResult{}, err
	}
	if out.current, err = revision.Desired(ctx, g.contexts, out.before); err != nil {
		return dryRunResult{}, err
	}
	next, outcome := revision.Planned(out.plan), out.plan.Outcome(g.dryRunner.edition())
	if out.from > 0 {
		next, outcome = out.draft.Placements, plan.RestoredOutcome(out.from)
	}
	if err := g.quotas.CheckRequest(ctx, out.before, group, next); err != nil {
		return dryRunResult{}, err
	}
	if err := g.quotas.CheckRendered(ctx, out.before, group, out.draft.Use); err != nil {
		return dryRunResult{}, err
	}
	out.digest = planDigest(req, out.before, group, outcome)
	out.confirm, err = b.NeedsConfirmation(ctx, out.before, out.draft.Placements) // as the worker
	if err == nil && out.confirm == "" {
		out.confirm, err = b.NeedsConfirmation(ctx, out.before, next) // as the request, also for apps that fail
	}
	return out, err
}

// draft returns the revision that the head's operation would publish, and the plan that it
// is made from; a rollback has no plan.
func (g *Groups) draft(ctx context.Context, b revision.Builder, head appcontext.Head, doc store.Doc) (revision.Draft, plan.Plan, error) {
	if head.Op.From > 0 {
		if _, err := g.restorablePlacements(ctx, head, head.Op.From); err != nil {
			return revision.Draft{}, plan.Plan{}, err
		}
		if _, err := g.cloudOf(ctx, doc); err != nil {
			return revision.Draft{}, plan.Plan{}, err
		}
		policies, err := g.planner.PoliciesOf(ctx, doc)
		if err != nil {
			return revision.Draft{}, plan.Plan{}, err
		}
		d, err := b.RestoredDraft(ctx, head, policies)
		return d, plan.Plan{}, revisionNotFound(err, head.Op.From)
	}
	p, err := g.planner.Plan(ctx, doc, head.Deployment())
	if err == nil {
		err = p.Refused()
	}
	if err != nil {
		return revision.Draft{}, plan.Plan{}, err
	}
	d, err := b.Draft(ctx, head, p)
	return d, p, err
}

// bundleChange is the change of a placement from one bundle to another. Either may be empty.
type bundleChange struct{ from, to appcontext.Digest }

// changeOrder orders the changes of a plan.
var changeOrder = []string{v2.ChangeAdd, v2.ChangeChange, v2.ChangeRemove, v2.ChangeKeep}

func (c bundleChange) kind() string {
	switch {
	case c.from == c.to:
		return v2.ChangeKeep
	case c.from == "":
		return v2.ChangeAdd
	case c.to == "":
		return v2.ChangeRemove
	}
	return v2.ChangeChange
}

// clustersByChange groups an app's clusters, sorted, by the change on them.
func clustersByChange(now, next []revision.ClusterBundle) map[bundleChange][]v2.ClusterKey {
	changes := map[v2.ClusterKey]bundleChange{} // by cluster
	for _, p := range now {
		changes[p.Cluster] = bundleChange{from: p.Bundle}
	}
	for _, p := range next {
		changes[p.Cluster] = bundleChange{changes[p.Cluster].from, p.Bundle}
	}
	out := map[bundleChange][]v2.ClusterKey{}
	for _, cluster := range slices.Sorted(maps.Keys(changes)) {
		out[changes[cluster]] = append(out[changes[cluster]], cluster)
	}
	return out
}

// answer returns the result as clients read it. It compares objects only if withObjects is set.
func (r dryRunResult) answer(ctx context.Context, withObjects bool) (v2.Plan, error) {
	out := v2.Plan{
		StatusSubject: r.identity, Digest: r.digest, Action: r.action.String(), Revision: r.draft.Revision.Number, Confirm: r.confirm, Apps: []v2.AppPlan{},
	}
	if len(r.current) > 0 {
		out.From = r.before.Rev
	}
	if r.before.Op != nil {
		out.Notes = append(out.Notes, fmt.Sprintf("revision %d is being made now and is not considered", r.before.Op.Rev))
	}
	if !r.before.Owns() {
		out.Notes = append(out.Notes, "the previous deployment belongs to another group now: this starts a new deployment, and instantiate chooses the id in its label emco/deployment-id")
	}
	out.Notes = append(out.Notes, r.plan.Notes...)
	now, next := revision.ByApp(r.current), revision.ByApp(r.draft.Placements)
	names := map[string]bool{}
	for name := range now {
		names[name] = true
	}
	for _, a := range r.draft.Revision.Apps {
		names[a.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		app := r.appPlan(name)
		clusters := clustersByChange(now[name], next[name])
		changes := slices.SortedFunc(maps.Keys(clusters), func(a, b bundleChange) int {
			return cmp.Or(
				cmp.Compare(slices.Index(changeOrder, a.kind()), slices.Index(changeOrder, b.kind())),
				cmp.Compare(clusters[a][0], clusters[b][0]))
		})
		for _, c := range changes {
			class := v2.PlanClass{Change: c.kind(), Objects: []v2.ObjectChange{}}
			reason := r.reasonFunc(name, c)
			for _, cluster := range clusters[c] {
				class.Clusters = append(class.Clusters, v2.PlanCluster{Cluster: string(cluster), Reason: reason(cluster)})
			}
			if withObjects {
				var err error
				if class.Objects, err = r.blobs.Compare(ctx, c.from, c.to); err != nil {
					return v2.Plan{}, err
				}
			}
			app.Classes = append(app.Classes, class)
			addToSummary(&out.Summary, class)
		}
		if app.Failure != nil {
			out.Summary.Failed++
		}
		out.Apps = append(out.Apps, app)
	}
	return out, nil
}

// appPlan returns the plan of an app without the changes on clusters.
func (r dryRunResult) appPlan(name string) v2.AppPlan {
	out := v2.AppPlan{Name: name}
	if a := r.draftedApp(name); a != nil {
		if f := a.Failure; f != nil {
			out.Failure = &v2.AppFailure{Stage: f.Stage, File: f.File, Reason: f.Reason}
		}
		out.Findings, out.LeaveLast = slices.Concat(a.Findings, a.Duplicates, r.draft.Beside[name]), a.LeaveLast
		if a.Rollout != nil {
			out.Rollout = &v2.Rollout{Bake: a.Rollout.Bake}
			for _, w := range a.Rollout.Waves {
				// a rollback does not pause
				out.Rollout.Waves = append(out.Rollout.Waves, v2.Wave{Clusters: w.Clusters, Percent: w.Percent, ClusterLabel: w.Label, Bake: w.Bake, Pause: w.Pause && r.from == 0})
			}
		}
		for _, d := range a.DependsOn {
			dependency := v2.PlanDependency{App: d.App, Status: "Deployed", Wait: d.Delay}
			if d.Ready {
				dependency.Status = v2.Ready
			}
			out.DependsOn = append(out.DependsOn, dependency)
		}
	}
	if p := r.plannedApp(name); p != nil {
		for _, v := range slices.Concat(p.Decision.Refused, p.Decision.Spared) {
			out.Refused = append(out.Refused, v2.PlanRefusal{Cluster: string(v.Cluster), Reason: v.Reason})
		}
	}
	slices.SortFunc(out.Refused, func(a, b v2.PlanRefusal) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

// draftedApp returns an app of the drafted revision, nil if it lacks the app.
func (r dryRunResult) draftedApp(app string) *appcontext.App {
	apps := r.draft.Revision.Apps
	if i := slices.IndexFunc(apps, func(a appcontext.App) bool { return a.Name == app }); i >= 0 {
		return &apps[i]
	}
	return nil
}

// plannedApp returns an app of the plan, nil if there is no plan or it lacks the app.
func (r dryRunResult) plannedApp(app string) *plan.App {
	if i := slices.IndexFunc(r.plan.Apps, func(a plan.App) bool { return a.Name == app }); i >= 0 {
		return &r.plan.Apps[i]
	}
	return nil
}

// reasonFunc returns a function that explains why a cluster gets or loses an app.
func (r dryRunResult) reasonFunc(app string, c bundleChange) func(cluster v2.ClusterKey) string {
	always := func(text string) func(v2.ClusterKey) string { return func(v2.ClusterKey) string { return text } }
	drafted, planned := r.draftedApp(app), r.plannedApp(app)
	switch {
	case r.from > 0 && c.to == "":
		return always(fmt.Sprintf("revision %d does not have it there", r.from))
	case r.from > 0:
		return always(fmt.Sprintf("revision %d has it there", r.from))
	case drafted == nil || planned == nil:
		return always("the composite app no longer has this app")
	case drafted.Failure != nil:
		return always("stays as it is, because the app fails")
	case c.to != "":
		return func(cluster v2.ClusterKey) string { return planned.Decision.Why[cluster] }
	}
	reasons := map[v2.ClusterKey]string{}
	for _, v := range slices.Concat(planned.Decision.Refused, planned.Decision.Spared) {
		reasons[v.Cluster] = v.Reason
	}
	return func(cluster v2.ClusterKey) string { return cmp.Or(reasons[cluster], "the intent no longer selects it") }
}

func addToSummary(s *v2.PlanSummary, c v2.PlanClass) {
	n := len(c.Clusters)
	switch c.Change {
	case v2.ChangeAdd:
		s.Add += n
	case v2.ChangeChange:
		s.Change += n
	case v2.ChangeRemove:
		s.Remove += n
	default:
		s.Keep += n
	}
}
