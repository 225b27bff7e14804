package dcm

import (
	"context"
	"iter"
	"log/slog"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/addon"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/eventlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// cloudPath is the URL of a logical cloud; its actions are below it.
const cloudPath = "/v2/projects/{project}/logical-clouds/{logicalCloud}"

// Clouds serves the actions, status and events of logical clouds. A cloud of level 0 has no
// objects, so its actions are complete when they are answered. One of level 1 is a deployment.
type Clouds struct {
	db       *store.DB
	contexts *appcontext.Store
	addons   addon.Deployments // of clouds of level 1
	events   *eventlog.Log
	reader   *statusview.Reader
}

// NewClouds returns the actions over the two stores.
func NewClouds(db *store.DB, contexts *appcontext.Store) *Clouds {
	c := &Clouds{db: db, contexts: contexts, addons: addon.New(db, contexts, lifecycle.CloudTable(), "the logical cloud"), events: eventlog.New(contexts)}
	return c.WithStatus(statusview.New(contexts, mirror.New(contexts, slog.New(slog.DiscardHandler)), statusview.Default()))
}

// Mount adds the routes. As in upstream EMCO, actions ignore bodies and answer 202, but stop
// answers 200.
func (c *Clouds) Mount(r *mux.Router) {
	for e, status := range map[lifecycle.Action]int{
		lifecycle.Instantiate: http.StatusAccepted, lifecycle.Terminate: http.StatusAccepted, lifecycle.Update: http.StatusAccepted, lifecycle.Stop: http.StatusOK,
	} {
		web.Handle(r, http.MethodPost, cloudPath+"/"+e.String(), authz.Permission{Verb: authz.Act(e.String()), Type: "logical-clouds"}, web.WithDryRun(c.addons.Action(e, status, c.cloud, c.decide)))
	}
	read := authz.Permission{Verb: authz.Get, Type: "logical-clouds"}
	web.Handle(r, http.MethodGet, cloudPath+"/status", read, c.status)
	web.Handle(r, http.MethodGet, cloudPath+"/events", read, c.listEvents)
}

// decide returns the changes of a request.
func (c *Clouds) decide(ctx context.Context, now lifecycle.Snapshot, ask lifecycle.Request) ([]appcontext.HeadChange, error) {
	cloud, err := store.Decode[v2.LogicalCloud](now.Doc)
	if err != nil {
		return nil, err
	}
	if cloud.Spec.Level != v2.LevelAdmin {
		return c.decideStandard(ctx, now, ask)
	}
	return c.decideAdmin(ctx, now, ask)
}

// decideAdmin returns the changes of a request for a cloud of level 0.
func (c *Clouds) decideAdmin(ctx context.Context, now lifecycle.Snapshot, ask lifecycle.Request) ([]appcontext.HeadChange, error) {
	next, err := c.addons.Table.Next(now.Head.State, ask.Action)
	if err != nil {
		return nothingToDo(now, ask, err)
	}
	to, rev := now.Head, int64(0)
	to.State = next
	var uses *appcontext.Uses
	switch ask.Action {
	case lifecycle.Instantiate:
		to.LastRev = to.NextRevision()
		rev, err = to.LastRev, c.checkInstantiable(ctx, now.Doc)
	case lifecycle.Update:
		return nothingToDo(now, ask, nil) // a cloud of level 0 has nothing to change on clusters
	case lifecycle.Terminate:
		uses, err = c.checkUnused(ctx, now.Doc)
	}
	m := now.Change(to, ask.NewEntry(next, now.Doc.UID, rev))
	m.Unused = uses
	m.Events = []appcontext.Event{ask.NewEvent(next.String(), "the logical cloud is "+next.String(), rev)}
	return []appcontext.HeadChange{m}, err
}

// nothingToDo accepts the termination of a cloud that was never instantiated, and the update of
// one that is not instantiated, as upstream EMCO does.
func nothingToDo(now lifecycle.Snapshot, ask lifecycle.Request, refusal error) ([]appcontext.HeadChange, error) {
	idle := ask.Action == lifecycle.Terminate && now.Head.State == appcontext.Created || ask.Action == lifecycle.Update
	if !idle {
		return nil, refusal
	}
	return addon.NoChange(now, ask), nil
}

// checkInstantiable requires at least one cluster.
func (c *Clouds) checkInstantiable(ctx context.Context, doc store.Doc) error {
	for _, err := range c.db.List(ctx, doc.Key+"/cluster-references", store.Query{Depth: 1, Limit: 1}) {
		return err
	}
	return errs.New(errs.Invalid, "No Cluster References associated; add one below "+string(doc.Key)+"/cluster-references")
}

// checkUnused refuses while the cloud is in use, and returns its uses from before the
// check: if a deployment starts to use the cloud afterwards, the termination is decided
// again.
func (c *Clouds) checkUnused(ctx context.Context, doc store.Doc) (*appcontext.Uses, error) {
	uses, err := c.contexts.Uses(ctx, appcontext.HeadID(doc.UID))
	if err != nil {
		return nil, err
	}
	return &uses, c.checkTerminable(ctx, doc)
}

// checkTerminable refuses while a deployment that uses the cloud is instantiated or has
// pairs left. Upstream EMCO refuses for any group that names the cloud, even one that was never
// instantiated.
func (c *Clouds) checkTerminable(ctx context.Context, doc store.Doc) error {
	for user, err := range c.users(ctx, doc.Key) {
		if err != nil {
			return err
		}
		live, err := c.hasPlacements(ctx, appcontext.HeadID(user.UID))
		if err != nil {
			return err
		}
		if live {
			return errs.New(errs.Conflict, "the logical cloud is in use by "+string(user.Key)+"; terminate that first, and wait until it is Terminated")
		}
	}
	return nil
}

// users yields the documents that name a cloud, which are deployment intent groups.
func (c *Clouds) users(ctx context.Context, cloud store.Key) iter.Seq2[store.Doc, error] {
	return c.db.List(ctx, store.Key(v2.ProjectStoreKey(cloud.Project())), store.Query{Refers: cloud})
}

// hasPlacements reports whether a deployment is instantiated or has pairs left. What
// migrated to another group belongs to that group.
func (c *Clouds) hasPlacements(ctx context.Context, id appcontext.HeadID) (bool, error) {
	head, err := c.contexts.Head(ctx, id)
	switch {
	case errs.Is(err, errs.NotFound):
		return false, nil
	case err != nil || head.State.Live():
		return true, err
	case !head.Owns():
		return false, nil
	}
	left, err := c.reader.Left(ctx, id)
	return len(left) > 0, err
}

// cloud reads the document that the URL names.
func (c *Clouds) cloud(r *http.Request) (store.Doc, error) {
	v, err := web.Vars(r)
	if err != nil {
		return store.Doc{}, err
	}
	return c.cloudAt(r.Context(), store.Key(web.LogicalCloud(v).StoreKey()))
}

func (c *Clouds) cloudAt(ctx context.Context, key store.Key) (store.Doc, error) {
	doc, err := c.db.Get(ctx, key)
	if errs.Is(err, errs.NotFound) {
		return doc, errs.New(errs.NotFound, "LogicalCloud not found")
	}
	return doc, err
}

// listEvents answers with the event log of a cloud.
func (c *Clouds) listEvents(w http.ResponseWriter, r *http.Request) error {
	doc, err := c.cloud(r)
	if err != nil {
		return err
	}
	return c.events.Serve(w, r, appcontext.HeadID(doc.UID), identity(doc))
}
