package plan

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/cloud"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Plan is what the documents of a deployment intent group describe: each app with its
// clusters and everything that its rendering depends on.
type Plan struct {
	Namespace string // of objects that name none
	Cloud     appcontext.Cloud
	Apps      []App // in order of name
}

// App is the plan of one app. A refusal affects this app only.
type App struct {
	Name     string
	Decision placement.Decision
	Refusal  error          // why the app cannot be deployed; nil if it can
	Request  render.Request // without edits
	Edits    []customize.Edit
	Findings []string // of controllers
	Policies Policies
	Order    Order
}

// Classes returns the clusters of the app by the edits that they get.
func (a App) Classes() []customize.Class {
	return customize.Classes(a.Name, a.Decision.Clusters, a.Edits)
}

// Order is the order of an app's delivery: its dependencies and its rollout waves.
type Order struct {
	DependsOn []appcontext.Dependency
	LeaveLast bool
	Rollout   *appcontext.Rollout
}

// Planner reads the documents of deployment intent groups. It writes nothing and renders
// nothing. Set its exported fields before its first use.
type Planner struct {
	Controllers map[string]customize.Controller // action controllers within the program, by name
	External    ExternalControllers             // nil: none are called

	db        *store.DB
	ready     func(ctx context.Context, cloud store.Doc) error
	inventory *inventory.Inventory
	decisions *placement.DecisionCache
}

// New returns a planner that reads db. ready returns why a logical cloud cannot be used, nil
// if it can; plans return its error.
func New(db *store.DB, ready func(ctx context.Context, cloud store.Doc) error) Planner {
	return Planner{db: db, ready: ready, inventory: inventory.New(db, cloud.New), decisions: &placement.DecisionCache{}}
}

// Plan reads all documents. deployment is the id that the group's objects carry on
// clusters; see appcontext.Head. Errors concern the group as a whole: they are Invalid or
// NotFound if users must change documents, and those of ready, of controllers and of the
// store otherwise. What concerns one app is that app's refusal.
func (p Planner) Plan(ctx context.Context, doc store.Doc, deployment v2.DeploymentID) (Plan, error) {
	d, err := p.read(ctx, doc)
	if err != nil {
		return Plan{}, err
	}
	apps, err := p.requests(ctx, d, deployment)
	if err != nil {
		return Plan{}, err
	}
	for i := range apps {
		a := &apps[i]
		a.Decision, a.Refusal = p.decide(ctx, d, a.Name)
	}
	policies, err := p.policies(ctx, doc.Key.Project(), d.group.Spec.LogicalCloud)
	if err != nil {
		return Plan{}, err
	}
	for i := range apps {
		apps[i].Policies = policies
	}
	if err := p.customize(ctx, doc.Key, d, apps); err != nil {
		return Plan{}, err
	}
	return Plan{Namespace: namespaceOf(d.cloud), Cloud: cloudOf(d.app, d.cloud), Apps: apps}, nil
}

// Places returns the clusters of each app by the current documents, without what rendering
// needs. Apps that cannot be placed are left out. Errors are those of Plan.
func (p Planner) Places(ctx context.Context, doc store.Doc) (map[string][]v2.ClusterKey, error) {
	d, err := p.read(ctx, doc)
	if err != nil {
		return nil, err
	}
	names, err := p.AppNames(ctx, d.app)
	out := map[string][]v2.ClusterKey{}
	for _, name := range names {
		if decision, err := p.decide(ctx, d, name); err == nil {
			out[name] = decision.Clusters
		}
	}
	return out, err
}

// documents are what the placement of a group's apps depends on.
type documents struct {
	app     v2.CompositeAppKey
	group   v2.DeploymentIntentGroup
	cloud   v2.LogicalCloud
	within  placement.Filter            // admits the clusters of the logical cloud
	intents map[string]placement.Intent // by app
	calls   []controllerCall
	fleet   *inventory.Fleet
}

// read reads what places the apps of a group.
func (p Planner) read(ctx context.Context, doc store.Doc) (d documents, err error) {
	d.app, _ = v2.CompositeAppOf(string(doc.Key))
	if d.group, err = store.Decode[v2.DeploymentIntentGroup](doc); err != nil {
		return d, err
	}
	if d.cloud, d.within, err = p.cloud(ctx, d.app.Project, d.group.Spec.LogicalCloud); err != nil {
		return d, err
	}
	named, err := p.groupIntents(ctx, doc.Key)
	if err != nil {
		return d, err
	}
	d.calls = named.calls
	if d.intents, err = p.placementIntents(ctx, doc.Key, named); err != nil {
		return d, err
	}
	d.fleet, err = p.inventory.Fleet(ctx)
	return d, err
}

// decide places one app; its error says why the app cannot be placed.
func (p Planner) decide(ctx context.Context, d documents, app string) (placement.Decision, error) {
	return p.decisions.Decide(ctx, placement.Request{App: app, Intent: d.intents[app], Inventory: d.fleet}, d.within)
}

// maxClasses bounds the classes of a deployment: each is rendered or patched, and named in the
// revision.
const maxClasses = 1000

// customize adds the edits of override values and of action controllers to the apps.
func (p Planner) customize(ctx context.Context, group store.Key, d documents, apps []App) error {
	pairs := func(cluster v2.ClusterKey) (map[string]string, error) { return p.inventory.Pairs(ctx, cluster) }
	c := customize.Deployment{Group: string(group), Inventory: d.fleet, KeyValues: pairs}
	index := map[string]*App{}
	for i := range apps {
		a := &apps[i]
		if a.Refusal != nil {
			continue
		}
		app := customize.App{Name: a.Name, Clusters: a.Decision.Clusters}
		a.Edits, a.Refusal = customize.ClusterOverrides(d.group, app, d.fleet, pairs)
		if a.Refusal != nil && !errs.Is(a.Refusal, errs.Invalid) {
			return a.Refusal
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

// Refused joins the refusals of all apps into one Invalid error; nil if there are none.
func (p Plan) Refused() error {
	var lines []string
	for _, a := range p.Apps {
		if a.Refusal != nil {
			lines = append(lines, fmt.Sprintf("app %s: %s", a.Name, a.Refusal))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return errs.New(errs.Invalid, strings.Join(lines, "\n"))
}

// cloud reads the logical cloud and returns it with the filter that admits its clusters.
func (p Planner) cloud(ctx context.Context, project, name string) (v2.LogicalCloud, placement.Filter, error) {
	key := logicalCloudKey(project, name)
	doc, err := p.db.Get(ctx, key)
	if errs.Is(err, errs.NotFound) {
		return v2.LogicalCloud{}, nil, errs.New(errs.Invalid, "LogicalCloud not found: "+name)
	}
	if err != nil {
		return v2.LogicalCloud{}, nil, err
	}
	if err := p.ready(ctx, doc); err != nil {
		return v2.LogicalCloud{}, nil, err
	}
	lc, err := store.Decode[v2.LogicalCloud](doc)
	if err != nil {
		return lc, nil, err
	}
	within, err := p.inventory.Cloud(ctx, key, name)
	return lc, within, err
}

// logicalCloudKey returns the key of a logical cloud of a project.
func logicalCloudKey(project, name string) store.Key {
	return store.Key(v2.LogicalCloudKey{Project: project, Name: name}.StoreKey())
}

// namespaceOf returns the namespace of objects that name none. Level 0 clouds use that of
// the cluster's credentials, "default".
func namespaceOf(lc v2.LogicalCloud) string {
	if lc.Spec.Level == "0" || lc.Spec.Namespace == "" {
		return "default"
	}
	return lc.Spec.Namespace
}

// cloudOf returns what reconcilers on clusters need to know of a logical cloud.
func cloudOf(app v2.CompositeAppKey, lc v2.LogicalCloud) appcontext.Cloud {
	return appcontext.Cloud{
		Name: v2.CloudName(app.Project, lc.Metadata.Name), Confined: lc.Spec.Level != v2.LevelAdmin, Account: lc.Spec.ApplyAccount(), User: userOf(lc),
	}
}

// userOf returns whom EMCO acts as for a logical cloud; empty for level 0.
func userOf(lc v2.LogicalCloud) string {
	if lc.Spec.Level == v2.LevelAdmin {
		return ""
	}
	return lc.Spec.User.Name
}

// placementIntents returns each app's intent, merged from all that name it.
func (p Planner) placementIntents(ctx context.Context, group store.Key, named namedIntents) (map[string]placement.Intent, error) {
	if named.placement == "" {
		return nil, errs.New(errs.Invalid, "no intent of the group names a "+v2.PlacementKey+"; add one below "+string(group)+"/intents")
	}
	key := group + "/generic-placement-intents/" + store.Key(named.placement)
	if _, err := p.db.Get(ctx, key); err != nil {
		return nil, store.NotFoundAs(err, "GenericPlacementIntent not found: "+named.placement)
	}
	out := map[string]placement.Intent{}
	for item, err := range store.All[v2.AppIntent](ctx, p.db, key+"/app-intents", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		app := item.Value.Spec.App
		out[app] = placement.Merge(out[app], intentOf(item.Value))
	}
	return out, nil
}

// namedIntents are the intents that the intents of a group name.
type namedIntents struct {
	placement string // name of the generic placement intent; empty if there is none yet
	calls     []controllerCall
}

// controllerCall is a controller with the name of its intent.
type controllerCall struct {
	priority   int // lower is called earlier
	controller string
	intent     string
	called     customize.Controller
}

// same reports whether two calls would do the same.
func (c controllerCall) same(other controllerCall) bool {
	return c.controller == other.controller && c.intent == other.intent
}

// ExternalControllers returns the controller that a document registers.
type ExternalControllers func(v2.Controller) customize.Controller

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
			call, err := p.call(ctx, controller, intent)
			if err != nil {
				return out, fmt.Errorf("intent %s: %w", item.Value.Metadata.Name, err)
			}
			out.calls = append(out.calls, call)
		}
	}
	slices.SortFunc(out.calls, func(a, b controllerCall) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.controller, b.controller), cmp.Compare(a.intent, b.intent))
	})
	out.calls = slices.CompactFunc(out.calls, controllerCall.same)
	return out, nil
}

// call finds a controller: one of the program, or one that is registered. The registration, if
// there is one, has its place in the order.
func (p Planner) call(ctx context.Context, controller, intent string) (controllerCall, error) {
	out := controllerCall{controller: controller, intent: intent, called: p.Controllers[controller]}
	doc, err := p.db.Get(ctx, "controllers/"+store.Key(controller))
	absent := errs.Is(err, errs.NotFound)
	if err != nil && !absent {
		return out, err
	}
	var registered v2.Controller
	if !absent {
		if registered, err = store.Decode[v2.Controller](doc); err != nil {
			return out, err
		}
		out.priority = registered.Spec.Priority
	}
	switch {
	case out.called != nil:
	case absent || p.External == nil:
		return out, errs.New(errs.Invalid, fmt.Sprintf("controller %q is not known: the program has %s, and no other of this name is registered; register it below /v2/controllers with type \"action\", or remove it from the group's intents", controller, p.ownControllers()))
	case registered.Spec.Type != "action":
		return out, errs.New(errs.Invalid, fmt.Sprintf("controller %q is registered with type %q; only controllers of type \"action\" are called: remove it from the group's intents", controller, registered.Spec.Type))
	default:
		out.called = p.External(registered)
	}
	return out, nil
}

// ownControllers names the controllers of the program.
func (p Planner) ownControllers() string {
	if len(p.Controllers) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(p.Controllers)), ", ")
}

// requests returns the rendering inputs of each app of the composite app.
func (p Planner) requests(ctx context.Context, d documents, deployment v2.DeploymentID) ([]App, error) {
	app, g := d.app, d.group
	profiles, err := p.profiles(ctx, store.Key(app.ProfileStoreKey(g.Spec.Profile)))
	if err != nil {
		return nil, err
	}
	var out []App
	for item, err := range store.All[v2.App](ctx, p.db, store.Key(app.StoreKey()+"/apps"), store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		name := item.Value.Metadata.Name
		profile, ok := profiles[name]
		if !ok {
			return nil, errs.New(errs.Invalid, "AppProfileContent not found for:: "+name+"; add a profile for it to composite profile "+g.Spec.Profile)
		}
		order, err := p.order(ctx, item)
		if err != nil {
			return nil, err
		}
		label, value := manifest.DeploymentLabel(deployment, name)
		out = append(out, App{Name: name, Order: order, Request: render.Request{
			App: name, Package: p.archive(item.Doc), Profile: profile, Overrides: customize.Overrides(g, name),
			Release: g.Spec.Version, Namespace: namespaceOf(d.cloud), Labels: []render.Label{{Key: label, Value: value}},
			Project: app.Project,
		}})
	}
	if len(out) == 0 {
		return nil, errs.New(errs.Invalid, "the composite app has no apps; add some below "+app.StoreKey()+"/apps")
	}
	return out, nil
}

// AppNames returns the names of a composite app's apps, in order. Errors are the store's.
func (p Planner) AppNames(ctx context.Context, app v2.CompositeAppKey) (names []string, err error) {
	for doc, err := range p.db.List(ctx, store.Key(app.StoreKey()+"/apps"), store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		names = append(names, path.Base(string(doc.Key)))
	}
	return names, nil
}

// order reads an app's delivery order.
func (p Planner) order(ctx context.Context, app store.Item[v2.App]) (Order, error) {
	out := Order{LeaveLast: app.Value.Spec.LeaveLast, Rollout: rolloutOf(app.Value.Spec.Rollout)}
	var err error
	out.DependsOn, err = p.dependencies(ctx, app.Doc.Key)
	return out, err
}

// dependencies returns the apps that an app waits for, in order of the documents' names.
func (p Planner) dependencies(ctx context.Context, app store.Key) (out []appcontext.Dependency, err error) {
	for item, err := range store.All[v2.AppDependency](ctx, p.db, app+"/dependency", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		spec := item.Value.Spec
		out = append(out, appcontext.Dependency{App: spec.App, Ready: spec.Ready(), Delay: spec.Wait})
	}
	return out, nil
}

// rolloutOf translates a document's rollout.
func rolloutOf(r *v2.Rollout) *appcontext.Rollout {
	if r == nil {
		return nil
	}
	out := appcontext.Rollout{Bake: r.Bake}
	for _, w := range r.Waves {
		out.Waves = append(out.Waves, appcontext.Wave(w))
	}
	return &out
}

// profiles returns the archives of a composite profile by app.
func (p Planner) profiles(ctx context.Context, key store.Key) (map[string]render.Archive, error) {
	if _, err := p.db.Get(ctx, key); err != nil {
		return nil, store.NotFoundAs(err, "CompositeProfile not found: "+string(key))
	}
	out := map[string]render.Archive{}
	for item, err := range store.All[v2.AppProfile](ctx, p.db, key+"/profiles", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		out[item.Value.Spec.App] = p.archive(item.Doc)
	}
	return out, nil
}

// archive returns the file that was uploaded with a document.
func (p Planner) archive(doc store.Doc) render.Archive {
	if len(doc.Blobs) == 0 {
		return render.Archive{}
	}
	digest := doc.Blobs[0].Digest
	return render.Archive{Digest: digest, Open: func(ctx context.Context) (io.ReadCloser, error) { return p.db.OpenBlob(ctx, digest) }}
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
	return placement.Selector{Provider: s.Provider, Cluster: s.Cluster, Label: s.Label}
}
