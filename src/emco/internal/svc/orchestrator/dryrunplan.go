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

// outlook is what is known after a dry run: the revision that is desired now, and the
// one that would be published.
type outlook struct {
	identity v2.Identity
	event    lifecycle.Event
	before   appcontext.Head
	now      []appcontext.Placement
	plan     plan // what the draft follows from; empty for a rollback
	from     int64
	draft    draft
	confirm  string
	contents *memory
}

// way is what becomes of a placement: from one bundle to another. Either may be empty.
type way struct{ now, then appcontext.Digest }

// changes is the order in which changes are shown.
var changes = []string{v2.ChangeAdd, v2.ChangeChange, v2.ChangeRemove, v2.ChangeKeep}

func (w way) change() string {
	switch {
	case w.now == w.then:
		return v2.ChangeKeep
	case w.now == "":
		return v2.ChangeAdd
	case w.then == "":
		return v2.ChangeRemove
	}
	return v2.ChangeChange
}

// write puts the outlook in words; objects are compared only if full is set.
func (o outlook) write(ctx context.Context, full bool) (v2.Plan, error) {
	out := v2.Plan{
		Identity: o.identity, Action: o.event.String(), Revision: o.draft.rev.Number, Confirm: o.confirm, Notes: o.notes(), Apps: []v2.AppPlan{},
	}
	if len(o.now) > 0 {
		out.From = o.before.Rev
	}
	now, then := byApp(o.now), byApp(o.draft.places)
	for _, name := range o.apps(now) {
		app := o.app(name)
		ways := waysOf(now[name], then[name])
		for _, w := range inOrder(ways) {
			class := o.class(name, w, ways[w])
			if full {
				var err error
				if class.Objects, err = o.contents.compare(ctx, w); err != nil {
					return v2.Plan{}, err
				}
			}
			app.Classes = append(app.Classes, class)
			count(&out.Summary, class)
		}
		if app.Failure != nil {
			out.Summary.Failed++
		}
		out.Apps = append(out.Apps, app)
	}
	return out, nil
}

// notes are what readers should know of the whole.
func (o outlook) notes() (out []string) {
	if o.before.Op != nil {
		out = append(out, fmt.Sprintf("revision %d is being made at the moment and is not considered", o.before.Op.Rev))
	}
	if !o.before.Owns() {
		out = append(out, "what ran belongs to another group now: this begins a new deployment, and the id in its label emco/deployment-id is drawn when it is instantiated")
	}
	return out
}

// apps names all apps of now and then, sorted.
func (o outlook) apps(now map[string][]placed) []string {
	all := map[string]bool{}
	for name := range now {
		all[name] = true
	}
	for _, a := range o.draft.rev.Apps {
		all[a.Name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// app is what is said of an app besides what changes on clusters.
func (o outlook) app(name string) v2.AppPlan {
	out := v2.AppPlan{Name: name}
	if a := o.drafted(name); a != nil {
		out.Failure, out.Findings = failureOf(*a), a.Findings
		out.LeaveLast, out.Rollout = a.LeaveLast, wavesOf(a.Rollout)
		for _, d := range a.DependsOn {
			out.DependsOn = append(out.DependsOn, dependencyOf(d))
		}
	}
	if p := o.planned(name); p != nil {
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

// drafted returns the app of the revision that would be published, nil if it has none.
func (o outlook) drafted(app string) *appcontext.App {
	apps := o.draft.rev.Apps
	if i := slices.IndexFunc(apps, func(a appcontext.App) bool { return a.Name == app }); i >= 0 {
		return &apps[i]
	}
	return nil
}

// planned returns what the documents say of an app, nil if they have none, or if they
// were not asked.
func (o outlook) planned(app string) *appPlan {
	if i := slices.IndexFunc(o.plan.apps, func(a appPlan) bool { return a.name == app }); i >= 0 {
		return &o.plan.apps[i]
	}
	return nil
}

// waysOf groups an app's clusters, sorted, by what becomes of it there.
func waysOf(now, then []placed) map[way][]string {
	each := map[string]way{}
	for _, p := range now {
		each[p.cluster] = way{now: p.bundle}
	}
	for _, p := range then {
		each[p.cluster] = way{each[p.cluster].now, p.bundle}
	}
	out := map[way][]string{}
	for _, cluster := range slices.Sorted(maps.Keys(each)) {
		out[each[cluster]] = append(out[each[cluster]], cluster)
	}
	return out
}

// inOrder sorts ways by what they change, then by their first cluster.
func inOrder(ways map[way][]string) []way {
	rank := func(w way) int { return slices.Index(changes, w.change()) }
	return slices.SortedFunc(maps.Keys(ways), func(a, b way) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(ways[a][0], ways[b][0]))
	})
}

// class is what is said of the clusters of one way.
func (o outlook) class(app string, w way, clusters []string) v2.PlanClass {
	out := v2.PlanClass{Change: w.change(), Objects: []v2.ObjectChange{}}
	reasons := o.reasons(app, w)
	for _, c := range clusters {
		out.Clusters = append(out.Clusters, v2.PlanCluster{Cluster: c, Reason: reasons(c)})
	}
	return out
}

// reasons says why an app is to be on a cluster, or is to leave it.
func (o outlook) reasons(app string, w way) func(cluster string) string {
	always := func(text string) func(string) string { return func(string) string { return text } }
	drafted, planned := o.drafted(app), o.planned(app)
	switch {
	case o.from > 0 && w.then == "":
		return always(fmt.Sprintf("revision %d does not have it there", o.from))
	case o.from > 0:
		return always(fmt.Sprintf("revision %d has it there", o.from))
	case drafted == nil || planned == nil:
		return always("the composite app has no such app any more")
	case drafted.Failure != nil:
		return always("stays as it is, because the app fails")
	case w.then != "":
		return func(cluster string) string { return planned.decision.Why[cluster] }
	}
	left := map[string]string{}
	for _, v := range slices.Concat(planned.decision.Refused, planned.decision.Spared) {
		left[v.Cluster] = v.Reason
	}
	return func(cluster string) string { return cmp.Or(left[cluster], "the intent does not reach it any more") }
}

// count adds a class to the summary.
func count(s *v2.PlanSummary, c v2.PlanClass) {
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
