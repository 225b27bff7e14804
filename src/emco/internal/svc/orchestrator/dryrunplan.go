package orchestrator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
)

// dryRunResult is what is known after a dry run: the revision that is desired now, and the
// one that would be published.
type dryRunResult struct {
	identity v2.Identity
	event    lifecycle.Event
	before   appcontext.Head
	current  []appcontext.Placement
	plan     revisionPlan // what the draft follows from; empty for a rollback
	from     int64
	draft    revisionDraft
	confirm  string
	blobs    *dryRunBlobs
}

// bundleChange is what becomes of a placement: from one bundle to another. Either may be empty.
type bundleChange struct{ from, to appcontext.Digest }

// changes is the order in which changes are shown.
var changeOrder = []string{v2.ChangeAdd, v2.ChangeChange, v2.ChangeRemove, v2.ChangeKeep}

func (w bundleChange) kind() string {
	switch {
	case w.from == w.to:
		return v2.ChangeKeep
	case w.from == "":
		return v2.ChangeAdd
	case w.to == "":
		return v2.ChangeRemove
	}
	return v2.ChangeChange
}

// answer puts the outlook in words; objects are compared only if full is set.
func (o dryRunResult) answer(ctx context.Context, full bool) (v2.Plan, error) {
	out := v2.Plan{
		Identity: o.identity, Action: o.event.String(), Revision: o.draft.rev.Number, Confirm: o.confirm, Notes: o.notes(), Apps: []v2.AppPlan{},
	}
	if len(o.current) > 0 {
		out.From = o.before.Rev
	}
	now, then := byApp(o.current), byApp(o.draft.placements)
	for _, name := range o.appNames(now) {
		app := o.appPlan(name)
		ways := changesByKind(now[name], then[name])
		for _, w := range sortedChanges(ways) {
			class := o.planClass(name, w, ways[w])
			if full {
				var err error
				if class.Objects, err = o.blobs.compare(ctx, w); err != nil {
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

// notes are what readers should know of the whole.
func (o dryRunResult) notes() (out []string) {
	if o.before.Op != nil {
		out = append(out, fmt.Sprintf("revision %d is being made at the moment and is not considered", o.before.Op.Rev))
	}
	if !o.before.Owns() {
		out = append(out, "what ran belongs to another group now: this begins a new deployment, and the id in its label emco/deployment-id is drawn when it is instantiated")
	}
	return out
}

// appNames names all apps of now and then, sorted.
func (o dryRunResult) appNames(now map[string][]clusterBundle) []string {
	all := map[string]bool{}
	for name := range now {
		all[name] = true
	}
	for _, a := range o.draft.rev.Apps {
		all[a.Name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// appPlan is what is said of an app besides what changes on clusters.
func (o dryRunResult) appPlan(name string) v2.AppPlan {
	out := v2.AppPlan{Name: name}
	if a := o.draftedApp(name); a != nil {
		out.Failure, out.Findings = failureOf(*a), a.Findings
		out.LeaveLast, out.Rollout = a.LeaveLast, wavesOf(a.Rollout)
		for _, d := range a.DependsOn {
			out.DependsOn = append(out.DependsOn, dependencyOf(d))
		}
	}
	if p := o.plannedApp(name); p != nil {
		for _, v := range slices.Concat(p.decision.Refused, p.decision.Spared) {
			out.Refused = append(out.Refused, v2.PlanRefusal{Cluster: v.Cluster, Reason: v.Reason})
		}
	}
	slices.SortFunc(out.Refused, func(a, b v2.PlanRefusal) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

func dependencyOf(d appcontext.Dependency) v2.PlanDependency {
	out := v2.PlanDependency{App: d.App, Status: "Deployed", Wait: d.Wait}
	if d.Ready {
		out.Status = v2.Ready
	}
	return out
}

// wavesOf is rolloutOf the other way round.
func wavesOf(r *appcontext.Rollout) *v2.Rollout {
	if r == nil {
		return nil
	}
	out := v2.Rollout{Bake: r.Bake}
	for _, w := range r.Waves {
		out.Waves = append(out.Waves, v2.Wave(w))
	}
	return &out
}

// draftedApp returns the app of the revision that would be published, nil if it has none.
func (o dryRunResult) draftedApp(app string) *appcontext.App {
	apps := o.draft.rev.Apps
	if i := slices.IndexFunc(apps, func(a appcontext.App) bool { return a.Name == app }); i >= 0 {
		return &apps[i]
	}
	return nil
}

// plannedApp returns what the documents say of an app, nil if they have none, or if they
// were not asked.
func (o dryRunResult) plannedApp(app string) *appPlan {
	if i := slices.IndexFunc(o.plan.apps, func(a appPlan) bool { return a.name == app }); i >= 0 {
		return &o.plan.apps[i]
	}
	return nil
}

// changesByKind groups an app's clusters, sorted, by what becomes of it there.
func changesByKind(now, then []clusterBundle) map[bundleChange][]string {
	each := map[string]bundleChange{}
	for _, p := range now {
		each[p.cluster] = bundleChange{from: p.bundle}
	}
	for _, p := range then {
		each[p.cluster] = bundleChange{each[p.cluster].from, p.bundle}
	}
	out := map[bundleChange][]string{}
	for _, cluster := range slices.Sorted(maps.Keys(each)) {
		out[each[cluster]] = append(out[each[cluster]], cluster)
	}
	return out
}

// sortedChanges sorts ways by what they change, then by their first cluster.
func sortedChanges(ways map[bundleChange][]string) []bundleChange {
	rank := func(w bundleChange) int { return slices.Index(changeOrder, w.kind()) }
	return slices.SortedFunc(maps.Keys(ways), func(a, b bundleChange) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(ways[a][0], ways[b][0]))
	})
}

// planClass is what is said of the clusters of one way.
func (o dryRunResult) planClass(app string, w bundleChange, clusters []string) v2.PlanClass {
	out := v2.PlanClass{Change: w.kind(), Objects: []v2.ObjectChange{}}
	reasons := o.reasons(app, w)
	for _, c := range clusters {
		out.Clusters = append(out.Clusters, v2.PlanCluster{Cluster: c, Reason: reasons(c)})
	}
	return out
}

// reasons says why an app is to be on a cluster, or is to leave it.
func (o dryRunResult) reasons(app string, w bundleChange) func(cluster string) string {
	always := func(text string) func(string) string { return func(string) string { return text } }
	drafted, planned := o.draftedApp(app), o.plannedApp(app)
	switch {
	case o.from > 0 && w.to == "":
		return always(fmt.Sprintf("revision %d does not have it there", o.from))
	case o.from > 0:
		return always(fmt.Sprintf("revision %d has it there", o.from))
	case drafted == nil || planned == nil:
		return always("the composite app has no such app any more")
	case drafted.Failure != nil:
		return always("stays as it is, because the app fails")
	case w.to != "":
		return func(cluster string) string { return planned.decision.Why[cluster] }
	}
	left := map[string]string{}
	for _, v := range slices.Concat(planned.decision.Refused, planned.decision.Spared) {
		left[v.Cluster] = v.Reason
	}
	return func(cluster string) string { return cmp.Or(left[cluster], "the intent does not reach it any more") }
}

// addToSummary adds a class to the summary.
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
