package dcm

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// cloudPath is where the actions of a logical cloud are found.
const cloudPath = "/v2/projects/{project}/logical-clouds/{logicalCloud}"

// Clouds serves the actions and the status of logical clouds. A cloud of level 0 has
// no objects of its own, so its actions are done when they are answered.
type Clouds struct {
	db       *store.DB
	contexts *appcontext.Store
	table    lifecycle.Table
	now      func() time.Time
}

// NewClouds returns the actions over the two stores.
func NewClouds(db *store.DB, contexts *appcontext.Store) *Clouds {
	return &Clouds{db: db, contexts: contexts, table: lifecycle.Clouds(), now: time.Now}
}

// Mount adds the routes. Bodies that are sent to actions are ignored, as EMCO does.
func (c *Clouds) Mount(r *mux.Router) {
	web.Handle(r, http.MethodPost, cloudPath+"/instantiate", c.action(lifecycle.Instantiate, c.instantiable))
	web.Handle(r, http.MethodPost, cloudPath+"/terminate", c.action(lifecycle.Terminate, c.terminable))
	web.Handle(r, http.MethodGet, cloudPath+"/status", web.HandlerFunc(c.status))
}

// action takes the step that the table names, if check lets it; the answer is 202.
func (c *Clouds) action(e lifecycle.Event, check func(context.Context, store.Doc) error) web.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		doc, err := c.cloud(r)
		if err != nil {
			return err
		}
		if err := c.step(r.Context(), doc, e, check); err != nil {
			return err
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
}

func (c *Clouds) step(ctx context.Context, doc store.Doc, e lifecycle.Event, check func(context.Context, store.Doc) error) error {
	head, acts, err := lifecycle.Head(ctx, c.contexts, doc)
	if err != nil {
		return err
	}
	next, err := c.table.Next(head.State, e)
	if err != nil {
		return c.nothingToDo(head, e, err)
	}
	if err := check(ctx, doc); err != nil {
		return err
	}
	to, act := head, appcontext.Action{State: next, Instance: doc.UID, Time: c.now()}
	to.State = next
	if e == lifecycle.Instantiate {
		to.LastRev++
		act.Revision = to.LastRev
	}
	_, err = c.contexts.Step(ctx, head, to, append(acts, act), nil)
	return err
}

// nothingToDo lets a cloud that was never instantiated be terminated, as EMCO does.
func (c *Clouds) nothingToDo(head appcontext.Head, e lifecycle.Event, refusal error) error {
	if e == lifecycle.Terminate && head.State == appcontext.Created {
		return nil
	}
	return refusal
}

// instantiable wants at least one cluster.
func (c *Clouds) instantiable(ctx context.Context, doc store.Doc) error {
	for _, err := range c.db.List(ctx, doc.Key+"/cluster-references", store.Query{Depth: 1, Limit: 1}) {
		return err
	}
	return errs.New(errs.Invalid, "No Cluster References associated; add one below "+string(doc.Key)+"/cluster-references")
}

// terminable refuses while a deployment that uses the cloud is wanted, or something of
// it is left. EMCO refuses for any group that names the cloud, even one that was never
// instantiated.
func (c *Clouds) terminable(ctx context.Context, doc store.Doc) error {
	project, _, _ := strings.Cut(string(doc.Key), "/logical-clouds/")
	for user, err := range c.db.List(ctx, store.Key(project), store.Query{Refers: doc.Key}) {
		if err != nil {
			return err
		}
		live, err := c.live(ctx, user.UID)
		if err != nil {
			return err
		}
		if live {
			return errs.New(errs.Conflict, "the logical cloud is in use by "+string(user.Key)+"; terminate that first, and wait until it is Terminated")
		}
	}
	return nil
}

// live reports whether a deployment is wanted or has left pairs.
func (c *Clouds) live(ctx context.Context, uid string) (bool, error) {
	head, err := c.contexts.Head(ctx, uid)
	if errs.Is(err, errs.NotFound) {
		return false, nil
	}
	if err != nil || head.Op != nil || head.Rev > 0 && !head.Gone {
		return true, err
	}
	left, err := c.contexts.Remains(ctx, uid)
	return len(left) > 0, err
}

// cloud reads the document that the URL names.
func (c *Clouds) cloud(r *http.Request) (store.Doc, error) {
	v, err := web.Vars(r)
	if err != nil {
		return store.Doc{}, err
	}
	doc, err := c.db.Get(r.Context(), store.Key("projects/"+v["project"]+"/logical-clouds/"+v["logicalCloud"]))
	if errs.Is(err, errs.NotFound) {
		return doc, errs.New(errs.NotFound, "LogicalCloud not found")
	}
	return doc, err
}

// status answers a status query. EMCO's scripts poll it and read deployedStatus,
// whatever the view.
func (c *Clouds) status(w http.ResponseWriter, r *http.Request) error {
	doc, err := c.cloud(r)
	if err != nil {
		return err
	}
	head, acts, err := lifecycle.History(r.Context(), c.contexts, doc)
	if err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, statusOf(doc, head, acts))
}

func statusOf(doc store.Doc, head appcontext.Head, acts []appcontext.Action) v2.Status {
	part := strings.Split(string(doc.Key), "/") // projects/P/logical-clouds/L
	out := v2.Status{Identity: v2.Identity{Project: part[1], Name: part[3]}, States: lifecycle.States(head, acts)}
	switch head.State {
	case appcontext.Instantiated:
		out.DeployedStatus, out.ReadyStatus = v2.StatusInstantiated, v2.Ready
	case appcontext.Terminated:
		out.DeployedStatus = v2.StatusTerminated
	}
	return out
}
