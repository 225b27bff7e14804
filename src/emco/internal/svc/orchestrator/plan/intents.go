package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// maxClasses bounds the classes of a deployment: each is rendered or patched, and named in the
// revision.
const maxClasses = 1000

// customize adds the edits of override values and of action controllers to the apps.
func (p Planner) customize(ctx context.Context, group store.Key, d documents, apps []App) error {
	keyValues := p.keyValues(ctx)
	c := customize.Deployment{Group: string(group), Namespace: namespaceOf(d.cloud), Inventory: d.fleet, KeyValues: keyValues}
	index := map[string]*App{}
	for i := range apps {
		a := &apps[i]
		if a.Refusal != nil {
			continue
		}
		app := customize.App{Name: a.Name, Clusters: a.Decision.Clusters}
		a.Edits, a.Refusal = customize.ClusterOverrides(d.group, app, d.fleet, keyValues)
		if a.Refusal != nil && !errs.Is(a.Refusal, errs.Invalid) {
			return a.Refusal
		}
		if a.Refusal == nil {
			var err error
			if a.Sources, err = p.sources(ctx, d, app, a.Request.Package, a.Request.Profile); err != nil {
				return err
			}
		}
		c.Apps, index[a.Name] = append(c.Apps, app), a
	}
	for _, call := range d.calls {
		c.Intent = call.intent
		edits, err := call.called.Customize(ctx, c)
		if err != nil {
			return fmt.Errorf("controller %s: %w", call.controller, err)
		}
		for _, e := range edits.Edits {
			if a := index[e.App]; a != nil {
				a.Edits = append(a.Edits, e)
			}
		}
		for _, f := range edits.Findings {
			if a := index[f.App]; a != nil {
				a.Findings = append(a.Findings, f.Text)
			}
		}
	}
	return checkClasses(apps)
}

// keyValues returns a function that reads the key-value pairs of a cluster.
func (p Planner) keyValues(ctx context.Context) customize.KeyValuesOf {
	return func(cluster v2.ClusterKey) (map[string]string, error) { return p.inventory.KeyValues(ctx, cluster) }
}

// checkClasses refuses a plan with too many classes.
func checkClasses(apps []App) error {
	all := 0
	for _, a := range apps {
		if len(a.Edits) > 0 {
			all += len(a.Classes())
		}
	}
	if all > maxClasses {
		return errs.New(errs.Invalid, fmt.Sprintf("the clusters of the apps get %d different contents, above the limit of %d; let more clusters share values and customizations", all, maxClasses))
	}
	return nil
}

// placementIntents returns each app's intent, merged from all that name it.
func (p Planner) placementIntents(ctx context.Context, group store.Key, named namedIntents) (map[string]placementIntent, error) {
	if named.placement == "" {
		return nil, errs.New(errs.Invalid, "no intent of the group names a "+v2.PlacementKey+"; add one below "+string(group)+"/intents")
	}
	key := group + "/generic-placement-intents/" + store.Key(named.placement)
	if _, err := p.db.Get(ctx, key); err != nil {
		return nil, store.NotFoundAs(err, "GenericPlacementIntent not found: "+named.placement)
	}
	out := map[string]placementIntent{}
	for item, err := range store.All[v2.AppIntent](ctx, p.db, key+"/app-intents", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		app := item.Value.Spec.App
		known, merged := out[app]
		next := placementIntent{intentOf(item.Value), item.Value.Spec.Intent.Choose}
		if merged {
			next.clusters = placement.Merge(known.clusters, next.clusters)
			next.choose = cmp.Or(known.choose, next.choose)
		}
		out[app] = next
	}
	return out, nil
}

// placementIntent is what documents want of the clusters of an app.
type placementIntent struct {
	clusters placement.Intent
	choose   *v2.Choice // nil: one of each anyOf, by name
}

// demands asks the placement controllers of a group, in their order, what its apps need of clusters.
func (p Planner) demands(ctx context.Context, d *documents, apps []string, documentsOnly bool) error {
	d.demands = map[string]placement.Demand{}
	for _, call := range d.placers {
		own, err := call.called.Demands(ctx, placement.Deployment{
			Group: string(d.doc.Key), Intent: call.intent, Inventory: d.fleet, Facts: p.inventory.KeyValues, DocumentsOnly: documentsOnly,
			Candidates: func(ctx context.Context) ([]placement.Candidates, error) { return p.candidates(ctx, *d, apps) },
			Running:    func(ctx context.Context) (map[string][]v2.ClusterKey, error) { return p.running(ctx, d.doc) },
		})
		if err != nil {
			return fmt.Errorf("controller %s: %w", call.controller, err)
		}
		for app, demand := range own {
			all := d.demands[app]
			all.Filters, all.Scorers = append(all.Filters, demand.Filters...), append(all.Scorers, demand.Scorers...)
			all.Momentary = all.Momentary || demand.Momentary
			d.demands[app] = all
		}
	}
	return nil
}

// running returns the clusters that the apps of a group are placed on now.
func (p Planner) running(ctx context.Context, group store.Doc) (map[string][]v2.ClusterKey, error) {
	if p.Running == nil {
		return nil, nil
	}
	return p.Running(ctx, group)
}

// candidates returns the candidates of apps, by the demands that are known. Apps that cannot be placed are left out.
func (p Planner) candidates(ctx context.Context, d documents, apps []string) (out []placement.Candidates, err error) {
	for _, app := range apps {
		req, filters := p.request(d, app)
		found, err := placement.FindCandidates(ctx, req, filters)
		switch {
		case err == nil:
			out = append(out, found)
		case !errs.Is(err, errs.Invalid):
			return nil, err
		}
	}
	return out, nil
}

// namedIntents are the intents that the intents of a group name. Calls are in their order.
type namedIntents struct {
	placement string // name of the generic placement intent; empty if there is none yet
	placers   []call[placement.Controller]
	calls     []call[customize.Controller]
	remote    bool // a placer is another process
}

// call is a controller with the name of its intent.
type call[C any] struct {
	priority           int // lower is called earlier
	controller, intent string
	called             C
}

// inOrder sorts calls, and drops those that would do the same as another one.
func inOrder[C any](calls []call[C]) []call[C] {
	slices.SortFunc(calls, func(a, b call[C]) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.controller, b.controller), cmp.Compare(a.intent, b.intent))
	})
	return slices.CompactFunc(calls, func(a, b call[C]) bool { return a.controller == b.controller && a.intent == b.intent })
}

// External returns the controllers of other processes that documents register, by type. Types without a function are
// refused.
type External struct {
	Action    func(v2.Controller) customize.Controller
	Placement func(v2.Controller) placement.Controller
}

// CheckIntents returns why the intents of a group cannot be used: Invalid if one names a
// controller that is not known.
func (p Planner) CheckIntents(ctx context.Context, group store.Key) error {
	_, err := p.groupIntents(ctx, group)
	return err
}

// groupIntents returns what the group's intents name, calls in their order. It refuses
// controllers that are not known, because they would have no effect.
func (p Planner) groupIntents(ctx context.Context, group store.Key) (out namedIntents, err error) {
	for item, err := range store.All[v2.GroupIntent](ctx, p.db, group+"/intents", store.Query{Depth: 1}) {
		if err != nil {
			return out, err
		}
		for controller, intent := range item.Value.Spec.Intent {
			if controller == v2.PlacementKey {
				out.placement = intent
				continue
			}
			if err := p.addCalls(ctx, &out, controller, intent); err != nil {
				return out, fmt.Errorf("intent %s: %w", item.Value.Metadata.Name, err)
			}
		}
	}
	out.placers, out.calls = inOrder(out.placers), inOrder(out.calls)
	return out, nil
}

// addCalls adds what a controller is called for: one of the program, or one that is registered. The registration, if
// there is one, has its place in the order.
func (p Planner) addCalls(ctx context.Context, out *namedIntents, controller, intent string) error {
	doc, err := p.db.Get(ctx, "controllers/"+store.Key(controller))
	absent := errs.Is(err, errs.NotFound)
	if err != nil && !absent {
		return err
	}
	var registered v2.Controller
	if !absent {
		if registered, err = store.Decode[v2.Controller](doc); err != nil {
			return err
		}
	}
	placer, action := builtInController(p.Placement, controller), builtInController(p.Controllers, controller)
	switch own := placer != nil || action != nil; {
	case own:
	case absent || p.External.Action == nil && p.External.Placement == nil:
		return errs.New(errs.Invalid, fmt.Sprintf("controller %q is not known: the program has %s, and no other of this name is registered; register it below /v2/controllers with type \"action\" or \"placement\", or remove it from the group's intents", controller, p.ownControllers()))
	case registered.Spec.Type == "action" && p.External.Action != nil:
		action = p.External.Action(registered)
	case registered.Spec.Type == "placement" && p.External.Placement != nil:
		placer, out.remote = p.External.Placement(registered), true
	default:
		return errs.New(errs.Invalid, fmt.Sprintf("controller %q is registered with type %q; only controllers of type \"action\" or \"placement\" are called: remove it from the group's intents", controller, registered.Spec.Type))
	}
	if placer != nil {
		out.placers = append(out.placers, call[placement.Controller]{registered.Spec.Priority, controller, intent, placer})
	}
	if action != nil {
		out.calls = append(out.calls, call[customize.Controller]{registered.Spec.Priority, controller, intent, action})
	}
	return nil
}

// builtInController returns a controller of the program. Upstream's examples number some of them: "name-1".
func builtInController[C any](own map[string]C, name string) C {
	if c, ok := own[name]; ok {
		return c
	}
	return own[strings.TrimRight(strings.TrimRight(name, "0123456789"), "-")]
}

// ownControllers names the controllers of the program.
func (p Planner) ownControllers() string {
	names := map[string]bool{}
	for name := range p.Controllers {
		names[name] = true
	}
	for name := range p.Placement {
		names[name] = true
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// intentOf translates a document into a placement intent.
func intentOf(i v2.AppIntent) (out placement.Intent) {
	for _, t := range i.Spec.Intent.AllOf {
		out.AllOf = append(out.AllOf, placement.Term{Selector: selectorOf(t.Selector), AnyOf: selectorsOf(t.AnyOf)})
	}
	out.AnyOf = selectorsOf(i.Spec.Intent.AnyOf)
	return out
}

func selectorsOf(in []v2.Selector) (out []placement.Selector) {
	for _, s := range in {
		out = append(out, selectorOf(s))
	}
	return out
}

func selectorOf(s v2.Selector) placement.Selector {
	return placement.Selector{Provider: s.Provider, Cluster: s.Cluster, Labels: s.RequiredLabels()}
}
