package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/criteria"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/logicalcloud"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Plan is what the documents of a deployment intent group describe: each app with its
// clusters and everything that its rendering depends on.
type Plan struct {
	Namespace string // of objects that name none
	Cloud     appcontext.Cloud
	Apps      []App    // in order of name
	Notes     []string // what has no effect, for people

	fleet *inventory.Fleet
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
	Sources  manifest.Digest // what the app is rendered from, see Planner.sources; empty if it is refused
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
	Placement   map[string]placement.Controller // placement controllers within the program, by name
	External    External
	// Running returns the clusters that the apps of a group are placed on now, by app, sorted; nil: none are.
	Running func(ctx context.Context, group store.Doc) (map[string][]v2.ClusterKey, error)

	db        *store.DB
	ready     func(ctx context.Context, cloud store.Doc) error
	inventory *inventory.Inventory
	decisions *placement.DecisionCache
	places    *placesCache
}

// New returns a planner that reads db. ready returns why a logical cloud cannot be used, nil
// if it can; plans return its error.
func New(db *store.DB, ready func(ctx context.Context, cloud store.Doc) error) Planner {
	return Planner{db: db, ready: ready, inventory: inventory.New(db, logicalcloud.New), decisions: &placement.DecisionCache{}, places: newPlacesCache(db)}
}

// Inventory returns the clusters as the planner knows them.
func (p Planner) Inventory() *inventory.Inventory { return p.inventory }

// Plan reads all documents. deployment is the id that the group's objects carry on
// clusters; see appcontext.Head. Errors concern the group as a whole: they are Invalid or
// NotFound if users must change documents, and those of ready, of controllers and of the
// store otherwise. What concerns one app is that app's refusal.
func (p Planner) Plan(ctx context.Context, doc store.Doc, deployment v2.DeploymentID) (Plan, error) {
	d, err := p.read(ctx, doc, p.ready)
	if err != nil {
		return Plan{}, err
	}
	apps, err := p.requests(ctx, d, deployment)
	if err != nil {
		return Plan{}, err
	}
	if err := p.place(ctx, d, apps); err != nil {
		return Plan{}, err
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
	if name, encrypts := policies.Encrypts(); encrypts {
		if err := p.encrypt(ctx, name, apps); err != nil {
			return Plan{}, err
		}
	}
	out := Plan{Namespace: namespaceOf(d.cloud), Cloud: cloudOf(d.app, d.cloud), Apps: apps, Notes: d.unknownApps(apps), fleet: d.fleet}
	out.findEmptyWaves()
	return out, nil
}

// unknownApps tells which apps documents name although the composite app does not have them.
func (d documents) unknownApps(apps []App) (notes []string) {
	known := map[string]bool{}
	for _, a := range apps {
		known[a.Name] = true
	}
	note := func(who, app string) {
		if text := fmt.Sprintf("%s name the app %s, which the composite app does not have; they have no effect", who, app); !known[app] && !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	for _, o := range d.group.Spec.Overrides {
		note("override values", o.App)
	}
	for _, app := range slices.Sorted(maps.Keys(d.intents)) {
		note("placement intents", app)
	}
	return notes
}

// place chooses the clusters of the apps.
func (p Planner) place(ctx context.Context, d documents, apps []App) error {
	var names []string
	for _, a := range apps {
		names = append(names, a.Name)
	}
	if err := p.demands(ctx, &d, names, false); err != nil {
		return err
	}
	for i := range apps {
		a := &apps[i]
		if a.Decision, a.Refusal = p.decide(ctx, d, a.Name); a.Refusal != nil && !errs.Is(a.Refusal, errs.Invalid) {
			return a.Refusal
		}
	}
	return nil
}

// documents are what the placement of a group's apps depends on.
type documents struct {
	doc     store.Doc // of the group
	app     v2.CompositeAppKey
	group   v2.DeploymentIntentGroup
	cloud   v2.LogicalCloud
	cloudID string                      // of the logical cloud's document
	within  placement.Filter            // admits the clusters of the logical cloud
	intents map[string]placementIntent  // by app
	demands map[string]placement.Demand // of placement controllers, by app; see Planner.demands
	fleet   *inventory.Fleet
	namedIntents
}

// read reads what places the apps of a group. The error of ready about the logical cloud is returned before intents are read; nil: the
// cloud need not be ready.
func (p Planner) read(ctx context.Context, doc store.Doc, ready func(ctx context.Context, cloud store.Doc) error) (d documents, err error) {
	d.doc = doc
	d.app, _ = v2.CompositeAppOf(string(doc.Key))
	if d.group, err = store.Decode[v2.DeploymentIntentGroup](doc); err != nil {
		return d, err
	}
	if err = p.readCloud(ctx, &d, ready); err != nil {
		return d, err
	}
	if d.namedIntents, err = p.groupIntents(ctx, doc.Key); err != nil {
		return d, err
	}
	if d.intents, err = p.placementIntents(ctx, doc.Key, d.namedIntents); err != nil {
		return d, err
	}
	d.fleet, err = p.inventory.Fleet(ctx)
	return d, err
}

// decide places one app, or returns why it cannot be placed.
func (p Planner) decide(ctx context.Context, d documents, app string) (placement.Decision, error) {
	req, filters := p.request(d, app)
	if d.intents[app].choose == nil && len(filters) == 1 && len(req.Preference.Scorers) == 0 {
		return p.decisions.Decide(ctx, req, d.within)
	}
	return placement.Decide(ctx, req, filters)
}

// request returns the request that places an app, by the demands that are known.
func (p Planner) request(d documents, app string) (placement.Request, []placement.Filter) {
	intent, demand := d.intents[app], d.demands[app]
	req := placement.Request{
		App: app, Intent: intent.clusters, Inventory: d.fleet, Facts: p.inventory.KeyValues, Preference: criteria.Of(intent.choose),
	}
	req.Preference.Scorers = append(req.Preference.Scorers, demand.Scorers...)
	return req, append([]placement.Filter{d.within}, demand.Filters...)
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

// readCloud reads the logical cloud, and makes the filter that admits its clusters.
func (p Planner) readCloud(ctx context.Context, d *documents, ready func(ctx context.Context, cloud store.Doc) error) error {
	name := d.group.Spec.LogicalCloud
	key := logicalCloudKey(d.app.Project, name)
	doc, err := p.db.Get(ctx, key)
	if errs.Is(err, errs.NotFound) {
		return errs.New(errs.Invalid, "LogicalCloud not found: "+name)
	}
	if err != nil {
		return err
	}
	if ready != nil {
		if err := ready(ctx, doc); err != nil {
			return err
		}
	}
	d.cloudID = doc.UID
	if d.cloud, err = store.Decode[v2.LogicalCloud](doc); err != nil {
		return err
	}
	d.within, err = p.inventory.Cloud(ctx, key, name)
	return err
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
