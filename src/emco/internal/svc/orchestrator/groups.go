package orchestrator

import (
	"context"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/eventlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/planview"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/review"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/quota"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/revision"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// groupPath is the URL of a deployment intent group; its actions are below it.
const groupPath = "/v2/" + web.GroupPath

// viewPath is the URL of a group's views.
const viewPath = "/v2/views/" + web.GroupPath

// Groups serves the actions of deployment intent groups, and with Queries what is known of them.
type Groups struct {
	groupDocs
	contexts  *appcontext.Store
	planner   plan.Planner
	table     lifecycle.Table
	executor  lifecycle.Executor
	events    *eventlog.Log
	dryRunner dryRunner
	plans     *planview.Cache // of dry runs that are read in parts
	quotas    quota.Checker
	reader    *statusview.Reader
	values    customize.Values // that patches fetch; nil: none
	placed    revision.Placed  // what clusters should hold; nil: not known
	reviews   *review.Records  // nil: callers may approve what they changed
	level     func() int       // of stored data that is in force; nil: the newest
	now       func() time.Time
}

// NewGroups returns the actions over the two stores. Only dry runs use the renderer, so it
// may be nil.
func NewGroups(db *store.DB, contexts *appcontext.Store, renderer render.Renderer) *Groups {
	g := &Groups{
		groupDocs: groupDocs{db}, contexts: contexts, table: lifecycle.GroupTable(), executor: lifecycle.Executor{DB: db, Contexts: contexts},
		events: eventlog.New(contexts), quotas: quota.Checker{DB: db}, dryRunner: newDryRunner(renderer), plans: planview.NewCache(time.Now), now: time.Now,
		reader: statusview.New(contexts, mirror.New(contexts, slog.New(slog.DiscardHandler)), statusview.Default()),
	}
	g.planner = plan.New(db, func(ctx context.Context, cloud store.Doc) error {
		_, err := g.instantiatedCloud(ctx, cloud)
		return err
	})
	g.planner.Running = g.running
	return g
}

// WithUsage makes the actions obey the quotas of projects; u counts what they use.
func (g *Groups) WithUsage(u *quota.Usage) *Groups {
	g.quotas.Usage = u
	return g
}

// Inventory returns the clusters that groups are placed on. Who else looks at the whole fleet must use it too, so that
// a process reads and keeps the clusters once.
func (g *Groups) Inventory() *inventory.Inventory { return g.planner.Inventory() }

// running returns the clusters that the apps of a group are placed on now, by app, sorted.
func (g *Groups) running(ctx context.Context, doc store.Doc) (map[string][]v2.ClusterKey, error) {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return nil, err
	}
	places, err := revision.Desired(ctx, g.contexts, head)
	if err != nil {
		return nil, err
	}
	out := map[string][]v2.ClusterKey{}
	for app, bundles := range revision.ByApp(places) {
		for _, b := range bundles {
			out[app] = append(out[app], b.Cluster)
		}
	}
	return out, nil
}

// WithStatus makes r read the status; r follows changes. Without it each query reads etcd.
func (g *Groups) WithStatus(r *statusview.Reader) *Groups {
	g.reader = r
	return g
}

// WithPlaced has plans and new revisions compared with what other deployments place on the same clusters.
func (g *Groups) WithPlaced(p revision.Placed) *Groups {
	g.placed = p
	return g
}

// WithReviews refuses callers the approval of their own changes, in the projects of r.
func (g *Groups) WithReviews(r *review.Records) *Groups {
	g.reviews = r
	return g
}

// WithLevel adds the level of stored data that is in force.
func (g *Groups) WithLevel(inForce func() int) *Groups {
	g.level = inForce
	return g
}

// WithControllers adds the action controllers that intents of groups may name, and the reader of
// the values that their patches fetch.
func (g *Groups) WithControllers(actions map[string]customize.Controller, values customize.Values) *Groups {
	g.planner.Controllers, g.values = actions, values
	return g
}

// WithPlacement adds the placement controllers that intents of groups may name.
func (g *Groups) WithPlacement(controllers map[string]placement.Controller) *Groups {
	g.planner.Placement = controllers
	return g
}

// WithExternal adds controllers that are other processes: functions return those that documents register.
func (g *Groups) WithExternal(actions func(v2.Controller) customize.Controller, placers func(v2.Controller) placement.Controller) *Groups {
	g.planner.External = plan.External{Action: actions, Placement: placers}
	return g
}

// Mount adds the routes, as the functions With… have made the actions. Actions answer 202 without a body, except update. Bodies of
// actions that need none are ignored, because upstream's CLI sends some.
func (g *Groups) Mount(r *mux.Router) {
	post := func(e lifecycle.Action, h web.HandlerFunc) {
		web.Handle(r, http.MethodPost, groupPath+"/"+e.String(), authz.Permission{Verb: authz.Act(e.String()), Type: "deployment-intent-groups"}, h)
	}
	for e, decide := range map[lifecycle.Action]decideFunc{
		lifecycle.Approve: g.approve, lifecycle.Terminate: g.terminate, lifecycle.Stop: g.stop, lifecycle.Promote: g.promote,
	} {
		post(e, web.WithDryRun(g.actionOrState(e, decide)))
	}
	for e, decide := range map[lifecycle.Action]decideFunc{
		lifecycle.Instantiate: g.instantiate, lifecycle.Update: g.update, lifecycle.Rollback: g.update, lifecycle.Migrate: g.migrate,
	} {
		post(e, g.orDryRun(e, g.action(e, decide)))
	}
	const class = "/plans/{plan}/classes/{class}"
	view := func(path string, h web.HandlerFunc) {
		web.Handle(r, http.MethodGet, viewPath+class+path, authz.Permission{Verb: authz.Get, Type: "deployment-intent-groups"}, h)
	}
	view("/clusters", g.plans.Clusters(g.group))
	view("/diff", g.plans.Diff(g.group))
	g.Queries().mount(r)
}

// Queries returns the queries that go with the actions, as the functions With… have made them.
func (g *Groups) Queries() Queries {
	return Queries{groupDocs: g.groupDocs, contexts: g.contexts, planner: g.planner, executor: g.executor, events: g.events, quotas: g.quotas, reader: g.reader}
}

// Guards returns what the group's lifecycle requires when its document changes.
func (g *Groups) Guards() resource.Guards {
	return resource.Guards{Replace: g.Replaceable, Delete: g.Deletable, Deleted: g.Deleted}
}

// Use tells whether a group uses an app of its composite app, with the profile that its composite profile has for it.
func (g *Groups) Use(ctx context.Context, doc store.Doc, app string) (Use, error) {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	switch {
	case err != nil || !head.State.Live():
		return Unused, err
	case head.Op != nil:
		return MayBeUsed, nil
	case head.Rev == 0:
		return Unused, nil
	}
	rev, err := g.contexts.DesiredRevision(ctx, head.UID, head.Rev)
	if slices.ContainsFunc(rev.Apps, func(a appcontext.App) bool { return a.Name == app }) {
		return InUse, err
	}
	return Unused, err
}

// Replaceable refuses changes of a group that has left state Created, with upstream's text.
func (g *Groups) Replaceable(ctx context.Context, doc store.Doc) error {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return err
	}
	if head.State != appcontext.Created {
		return errs.New(errs.Conflict, "The specified DeploymentIntentGroup is not in Created status")
	}
	return nil
}

// Deletable refuses to delete a group that is instantiated or being removed from clusters.
// As in upstream EMCO, a group whose removal failed or was stopped may be deleted; rsync keeps
// trying to remove what is left. What migrated to another group belongs to that group.
func (g *Groups) Deletable(ctx context.Context, doc store.Doc) error {
	_, err := g.deletableHead(ctx, doc)
	return err
}

// Deleted removes what the AppContext holds of a group whose document is being deleted.
// Conflict if the group was instantiated after Deletable was called.
func (g *Groups) Deleted(ctx context.Context, doc store.Doc) error {
	head, err := g.deletableHead(ctx, doc)
	if err != nil {
		return err
	}
	return g.contexts.Remove(ctx, head)
}

func (g *Groups) deletableHead(ctx context.Context, doc store.Doc) (appcontext.Head, error) {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	switch {
	case err != nil:
		return head, err
	case head.State.Live():
		return head, errs.New(errs.Conflict, "the group is instantiated; terminate it before it is deleted")
	case !head.Owns() || head.Stopped:
		return head, nil
	}
	status, err := g.deployedStatus(ctx, head)
	if err == nil && status == v2.StatusTerminating {
		err = errs.New(errs.Conflict, "the group is being terminated; delete it when its status is Terminated")
	}
	return head, err
}

// deployedStatus returns the deployedStatus of a head's deployment.
func (g *Groups) deployedStatus(ctx context.Context, head appcontext.Head) (string, error) {
	s, err := g.reader.Snapshot(ctx, head.UID)
	return s.Deployed(), err
}

// groupDocs reads the documents of groups.
type groupDocs struct{ db *store.DB }

// group reads the document that the URL names.
func (d groupDocs) group(r *http.Request) (store.Doc, error) {
	v, err := web.Vars(r)
	if err != nil {
		return store.Doc{}, err
	}
	return d.groupAt(r.Context(), store.Key(web.Group(v).StoreKey()))
}

func (d groupDocs) groupAt(ctx context.Context, key store.Key) (store.Doc, error) {
	doc, err := d.db.Get(ctx, key)
	return doc, store.NotFoundAs(err, "DeploymentIntentGroup not found")
}

// subjectOf returns what names a group in an answer.
func subjectOf(doc store.Doc) (v2.StatusSubject, error) {
	group, err := store.Decode[v2.DeploymentIntentGroup](doc)
	app := compositeApp(doc)
	return v2.StatusSubject{
		Project: app.Project, CompositeApp: app.Name, CompositeAppVersion: app.Version,
		CompositeProfile: group.Spec.Profile, Name: path.Base(string(doc.Key)),
	}, err
}

// compositeApp returns the version of a composite app that a document is below.
func compositeApp(doc store.Doc) v2.CompositeAppKey {
	app, _ := v2.CompositeAppOf(string(doc.Key))
	return app
}

// logicalCloudKey returns the key of a logical cloud of the project that a composite app belongs to.
func logicalCloudKey(app v2.CompositeAppKey, name string) store.Key {
	return store.Key(v2.LogicalCloudKey{Project: app.Project, Name: name}.StoreKey())
}
