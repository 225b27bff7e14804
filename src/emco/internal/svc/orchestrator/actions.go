package orchestrator

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/eventlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// groupPath is where the actions of a deployment intent group are found.
const groupPath = "/v2/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups/{deploymentIntentGroup}"

// Groups serves the actions, the status, the revisions and the events of deployment
// intent groups.
type Groups struct {
	db        *store.DB
	contexts  *appcontext.Store
	planner   revisionPlanner
	table     lifecycle.Table
	executor  lifecycle.Executor
	events    *eventlog.Log
	dryRunner dryRunner
	reader    *statusview.Reader
	now       func() time.Time
}

// NewGroups returns the actions over the two stores. Dry runs use the renderer, which may
// be nil where none are asked for.
func NewGroups(db *store.DB, contexts *appcontext.Store, renderer render.Renderer) *Groups {
	g := &Groups{
		db: db, contexts: contexts, table: lifecycle.Groups(), executor: lifecycle.Executor{DB: db, Contexts: contexts},
		events: eventlog.New(contexts), dryRunner: newDryRunner(renderer), now: time.Now,
		reader: statusview.New(contexts, mirror.New(contexts, slog.New(slog.DiscardHandler)), statusview.Default()),
	}
	g.planner = newRevisionPlanner(db, g.cloudReady)
	return g
}

// Mount adds the routes. The answers of actions are 202, without a body but for the one
// of update; bodies that are sent where none is wanted are ignored, since EMCO's CLI
// sends some.
func (g *Groups) Mount(r *mux.Router) {
	post := func(e lifecycle.Event, act web.HandlerFunc) {
		web.Handle(r, http.MethodPost, groupPath+"/"+e.String(), act)
	}
	for e, decide := range map[lifecycle.Event]decideFunc{
		lifecycle.Approve: g.approve, lifecycle.Terminate: g.terminate, lifecycle.Stop: g.stop,
	} {
		post(e, web.NoDryRun(g.action(e, decide)))
	}
	for e, decide := range map[lifecycle.Event]decideFunc{
		lifecycle.Instantiate: g.instantiate, lifecycle.Update: g.update, lifecycle.Rollback: g.update, lifecycle.Migrate: g.migrate,
	} {
		post(e, g.orDryRun(e, g.action(e, decide)))
	}
	get := func(path string, h web.HandlerFunc) { web.Handle(r, http.MethodGet, groupPath+path, h) }
	get("/status", g.status)
	get("/revisions", g.listRevisions)
	get("/revisions/{revision}", g.getRevision)
	get("/events", g.listEvents)
}

// actionRequest is a request for an action, with what its body says.
type actionRequest struct {
	request lifecycle.Request
	force   bool           // large removals are meant
	from    int64          // of a rollback: the revision to bring back
	target  v2.MigrateSpec // of a migration
}

// decideFunc says which moves a demand comes to. The first one is that of the case's group.
type decideFunc func(ctx context.Context, c lifecycle.Snapshot, o actionRequest) ([]appcontext.Move, error)

// action serves an event: what is decided about it is done, once.
func (g *Groups) action(e lifecycle.Event, decide decideFunc) web.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		doc, err := g.group(r)
		if err != nil {
			return err
		}
		o, err := g.readActionRequest(w, r, e)
		if err != nil {
			return err
		}
		act, err := g.executor.Execute(r.Context(), doc, o.request, func(ctx context.Context, c lifecycle.Snapshot) ([]appcontext.Move, error) {
			return decide(ctx, c, o)
		})
		if err != nil {
			return err
		}
		if e == lifecycle.Update { // EMCO answers the bare number
			return web.JSON(w, http.StatusAccepted, act.Revision)
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
}

// group reads the document that the URL names.
func (g *Groups) group(r *http.Request) (store.Doc, error) {
	v, err := web.Vars(r)
	if err != nil {
		return store.Doc{}, err
	}
	return g.groupAt(r.Context(), groupKey(v["project"], v["compositeApp"], v["compositeAppVersion"], v["deploymentIntentGroup"]))
}

func groupKey(project, app, version, group string) store.Key {
	return store.Key("projects/" + project + "/composite-apps/" + app + "/" + version + "/deployment-intent-groups/" + group)
}

func (g *Groups) groupAt(ctx context.Context, key store.Key) (store.Doc, error) {
	doc, err := g.db.Get(ctx, key)
	return doc, notFoundAs(err, "DeploymentIntentGroup not found")
}

// approve allows the group to be instantiated. Approving twice is one approval; only a
// request with a key, which has to be remembered, is noted again.
func (g *Groups) approve(_ context.Context, c lifecycle.Snapshot, o actionRequest) ([]appcontext.Move, error) {
	next, err := g.table.Next(c.Head.State, lifecycle.Approve)
	if err != nil || next == c.Head.State && o.request.Key == "" {
		return nil, err
	}
	to := c.Head
	to.State, to.Stopped = next, false
	return []appcontext.Move{withEvents(c.Move(to, o.request.NewAction(next, "", 0)), o.request.NewEvent("Approved", "approved", 0))}, nil
}

// withEvents adds what is to be read of a move in the event log.
func withEvents(m appcontext.Move, events ...appcontext.Event) appcontext.Move {
	m.Events = events
	return m
}

// instantiate checks all that can be known at once and records the operation. From then
// on the status reads Instantiating. A group whose deployment has moved to another one
// begins a new deployment, with an id of its own.
func (g *Groups) instantiate(ctx context.Context, c lifecycle.Snapshot, o actionRequest) ([]appcontext.Move, error) {
	if err := g.checkInstantiate(ctx, c.Head); err != nil {
		return nil, err
	}
	cloud, err := g.prepare(ctx, c.Doc, c.Head, o)
	if err != nil {
		return nil, err
	}
	op := g.operation(c.Head, o)
	to := c.Head
	if !to.Owns() {
		to.Inherited, to.MovedTo = op.Instance, ""
	}
	m := queue(c, to, op, o.request.NewAction(appcontext.Instantiated, op.Instance, op.Rev))
	m.Needs = &cloud
	return []appcontext.Move{withEvents(m, o.request.NewEvent("Instantiated", fmt.Sprintf("revision %d was asked for", op.Rev), op.Rev))}, nil
}

// checkInstantiate asks the table; what runs may be instantiated again only if it failed.
func (g *Groups) checkInstantiate(ctx context.Context, head appcontext.Head) error {
	if _, err := g.table.Next(head.State, lifecycle.Instantiate); err != nil {
		return err
	}
	return g.checkCondition(ctx, head, lifecycle.Instantiate)
}

// checkCondition looks at the condition that the table names besides the state.
func (g *Groups) checkCondition(ctx context.Context, head appcontext.Head, e lifecycle.Event) error {
	wanted := map[lifecycle.Condition][]string{
		lifecycle.Failed:   {v2.StatusInstantiateFailed},
		lifecycle.UnderWay: {v2.StatusInstantiating, v2.StatusTerminating},
	}[g.table.If(head.State, e)]
	if wanted == nil {
		return nil
	}
	status, err := g.progress(ctx, head)
	if err != nil {
		return err
	}
	for _, s := range wanted {
		if s == status {
			return nil
		}
	}
	return g.table.Refuse(head.State, e)
}

// queue is a move that has an operation make the next revision.
func queue(c lifecycle.Snapshot, to appcontext.Head, op appcontext.Operation, acts ...appcontext.Action) appcontext.Move {
	to.State, to.LastRev, to.Op, to.Failure, to.Stopped = appcontext.Instantiated, op.Rev, &op, "", false
	m := c.Move(to, acts...)
	m.Op = &op
	return m
}

// operation is what makes the next revision of a deployment. The first revision carries
// the deployment's own id, as EMCO's status context does; one that begins or takes over
// another deployment has an id of its own.
func (g *Groups) operation(head appcontext.Head, o actionRequest) appcontext.Operation {
	instance := head.UID
	if head.LastRev > 0 || o.request.Event == lifecycle.Migrate {
		instance = contextID()
	}
	return appcontext.Operation{
		ID: contextID(), UID: head.UID, Kind: o.request.Event.String(), Instance: instance,
		Rev: head.LastRev + 1, From: o.from, Force: o.force, Actor: o.request.Actor, Reason: o.request.Reason, At: o.request.At,
	}
}

// terminate makes nothing the desired state. A revision that is being made is
// dropped when it is to be published, because the head has moved on.
func (g *Groups) terminate(_ context.Context, c lifecycle.Snapshot, o actionRequest) ([]appcontext.Move, error) {
	next, err := g.table.Next(c.Head.State, lifecycle.Terminate)
	if err != nil {
		return nil, err
	}
	to := c.Head
	to.State, to.Gone, to.Op, to.Failure, to.Stopped = next, true, nil, "", false
	return []appcontext.Move{withEvents(c.Move(to, o.request.NewAction(next, c.LastInstance(), 0)), o.request.NewEvent("Terminated", "nothing is desired any more", 0))}, nil
}

// stop ends the work towards what is desired. What is done stays done: a revision that
// is being made is dropped, and what is not on its cluster yet does not get there.
func (g *Groups) stop(ctx context.Context, c lifecycle.Snapshot, o actionRequest) ([]appcontext.Move, error) {
	next, err := g.table.Next(c.Head.State, lifecycle.Stop)
	if err != nil {
		return nil, err
	}
	if err := g.checkCondition(ctx, c.Head, lifecycle.Stop); err != nil {
		return nil, err
	}
	to := c.Head
	to.State, to.Stopped, to.Op = next, true, nil
	return []appcontext.Move{withEvents(c.Move(to, o.request.NewAction(next, c.LastInstance(), 0)), o.request.NewEvent("Stopped", "nothing more is done towards what is desired", 0))}, nil
}

func (g *Groups) cloudReady(ctx context.Context, cloud store.Doc) error {
	_, err := g.cloudHead(ctx, cloud)
	return err
}

// cloudHead returns the head of a logical cloud; Conflict if it is not instantiated.
func (g *Groups) cloudHead(ctx context.Context, cloud store.Doc) (appcontext.Head, error) {
	head, err := g.contexts.Head(ctx, cloud.UID)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return head, err
	}
	if head.State != appcontext.Instantiated {
		return head, errs.New(errs.Conflict, "the logical cloud is not instantiated; instantiate "+string(cloud.Key)+" first")
	}
	return head, nil
}

// contextID makes an id as EMCO's run-time contexts have: a positive number of 63 bits, in decimal.
func contextID() string {
	n, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64-1))
	if err != nil {
		panic("no random numbers: " + err.Error()) // crypto/rand.Reader never fails
	}
	return n.Add(n, big.NewInt(1)).String()
}
