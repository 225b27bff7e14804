package orchestrator

import (
	"context"
	"crypto/rand"
	"math"
	"math/big"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// groupPath is where the actions of a deployment intent group are found.
const groupPath = "/v2/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups/{deploymentIntentGroup}"

// Groups serves the actions and the status of deployment intent groups.
type Groups struct {
	db       *store.DB
	contexts *appcontext.Store
	planner  planner
	table    lifecycle.Table
	dry      rehearsal
	now      func() time.Time
}

// NewGroups returns the actions over the two stores. Dry runs use the renderer, which may
// be nil where none are asked for.
func NewGroups(db *store.DB, contexts *appcontext.Store, renderer render.Renderer) *Groups {
	g := &Groups{db: db, contexts: contexts, table: lifecycle.Groups(), dry: newRehearsal(renderer), now: time.Now}
	g.planner = planner{db: db, ready: g.cloudReady}
	return g
}

// Mount adds the routes. The answers of actions are 202 without a body; bodies that
// are sent to them are ignored, since EMCO's CLI sends some.
func (g *Groups) Mount(r *mux.Router) {
	web.Handle(r, http.MethodPost, groupPath+"/approve", noDryRun(g.action(g.approve)))
	web.Handle(r, http.MethodPost, groupPath+"/instantiate", g.orDryRun(lifecycle.Instantiate, g.action(g.instantiate)))
	web.Handle(r, http.MethodPost, groupPath+"/terminate", noDryRun(g.action(g.terminate)))
	web.Handle(r, http.MethodPost, groupPath+"/update", g.orDryRun(lifecycle.Update, g.update))
	web.Handle(r, http.MethodPost, groupPath+"/rollback", g.orDryRun(lifecycle.Rollback, g.rollbackAction()))
	web.Handle(r, http.MethodGet, groupPath+"/status", web.HandlerFunc(g.status))
}

// action wraps what all actions share: the group is found, and success is 202.
func (g *Groups) action(do func(ctx context.Context, doc store.Doc) error) web.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		doc, err := g.group(r)
		if err != nil {
			return err
		}
		if err := do(r.Context(), doc); err != nil {
			return err
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
	key := store.Key("projects/" + v["project"] + "/composite-apps/" + v["compositeApp"] + "/" + v["compositeAppVersion"] +
		"/deployment-intent-groups/" + v["deploymentIntentGroup"])
	doc, err := g.db.Get(r.Context(), key)
	return doc, rename(err, "DeploymentIntentGroup not found")
}

// approve allows the group to be instantiated. Approving twice is one approval.
func (g *Groups) approve(ctx context.Context, doc store.Doc) error {
	head, acts, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return err
	}
	next, err := g.table.Next(head.State, lifecycle.Approve)
	if err != nil || next == head.State {
		return err
	}
	to := head
	to.State = next
	_, err = g.contexts.Step(ctx, head, to, append(acts, appcontext.Action{State: next, Time: g.now()}), nil)
	return err
}

// instantiate checks all that can be known at once and records the operation. From
// then on the status reads Instantiating.
func (g *Groups) instantiate(ctx context.Context, doc store.Doc) error {
	head, acts, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return err
	}
	if err := g.mayInstantiate(ctx, head); err != nil {
		return err
	}
	p, err := g.planner.plan(ctx, doc, head.Deployment())
	if err != nil {
		return err
	}
	if err := p.refused(); err != nil {
		return err
	}
	return g.queue(ctx, head, acts, g.operation(head, lifecycle.Instantiate))
}

// queue records an operation that makes a revision: one compare-and-swap of the head.
func (g *Groups) queue(ctx context.Context, head appcontext.Head, acts []appcontext.Action, op appcontext.Operation) error {
	to := head
	to.State, to.LastRev, to.Op, to.Failure = appcontext.Instantiated, op.Rev, &op, ""
	act := appcontext.Action{State: to.State, Instance: op.Instance, Revision: op.Rev, Time: op.At}
	_, err := g.contexts.Step(ctx, head, to, append(acts, act), &op)
	return err
}

// mayInstantiate asks the table; what runs may be instantiated again only if it failed.
func (g *Groups) mayInstantiate(ctx context.Context, head appcontext.Head) error {
	_, err := g.table.Next(head.State, lifecycle.Instantiate)
	if err != nil || g.table.If(head.State, lifecycle.Instantiate) == lifecycle.Always {
		return err
	}
	s, err := g.situation(ctx, head)
	if err == nil && s.deployed() != v2.StatusInstantiateFailed {
		err = g.table.Unmet(head.State, lifecycle.Instantiate)
	}
	return err
}

// operation is the next revision of a deployment. The first one carries the
// deployment's own id, as EMCO's status context does.
func (g *Groups) operation(head appcontext.Head, e lifecycle.Event) appcontext.Operation {
	instance := head.UID
	if head.LastRev > 0 {
		instance = contextID()
	}
	return appcontext.Operation{
		ID: contextID(), UID: head.UID, Kind: e.String(),
		Instance: instance, Rev: head.LastRev + 1, At: g.now(),
	}
}

// terminate makes nothing the desired state. A revision that is being made is
// dropped when it is to be published, because the head has moved on.
func (g *Groups) terminate(ctx context.Context, doc store.Doc) error {
	head, acts, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return err
	}
	next, err := g.table.Next(head.State, lifecycle.Terminate)
	if err != nil {
		return err
	}
	history, err := g.contexts.Actions(ctx, head.UID)
	if err != nil {
		return err
	}
	to := head
	to.State, to.Gone, to.Op, to.Failure = next, true, nil, ""
	act := appcontext.Action{State: next, Instance: lastInstance(history), Time: g.now()}
	_, err = g.contexts.Step(ctx, head, to, append(acts, act), nil)
	return err
}

func lastInstance(acts []appcontext.Action) string {
	for i := len(acts) - 1; i >= 0; i-- {
		if acts[i].Instance != "" {
			return acts[i].Instance
		}
	}
	return ""
}

// cloudReady refuses logical clouds that are not instantiated.
func (g *Groups) cloudReady(ctx context.Context, cloud store.Doc) error {
	head, err := g.contexts.Head(ctx, cloud.UID)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	if head.State != appcontext.Instantiated {
		return errs.New(errs.Conflict, "the logical cloud is not instantiated; instantiate "+string(cloud.Key)+" first")
	}
	return nil
}

// contextID makes an id as EMCO's run-time contexts have: a positive number of 63 bits, in decimal.
func contextID() string {
	n, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64-1))
	if err != nil {
		panic("no random numbers: " + err.Error()) // crypto/rand.Reader never fails
	}
	return n.Add(n, big.NewInt(1)).String()
}
