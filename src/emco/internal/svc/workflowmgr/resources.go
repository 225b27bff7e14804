// Package workflowmgr owns upstream's services tac and workflowmgr: hooks, which run workflows before and
// after actions on deployments, and workflows that users start. It stores the intents and the runs, and
// carries out the runs. The orchestrator adds the runs of hooks to its operations, and waits.
package workflowmgr

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

// Resources are the documents and actions that the service serves.
type Resources struct {
	DB       *store.DB
	Contexts *appcontext.Store
	Runners  workflow.Runners
	Now      func() time.Time
}

const (
	hookPath      = web.GroupPath + "/" + workflow.HookCollection
	workerPath    = hookPath + "/{hookIntent}/workers"
	workflowsPath = web.GroupPath + "/" + workflow.WorkflowCollection
)

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.HookIntent]{
		Kind: "HookIntent", Orphan: "DeploymentIntentGroup not found",
		Collection: hookPath, Item: "{hookIntent}", Put: resource.PutUpsert,
		Check: func(_ context.Context, _ resource.Place, h v2.HookIntent) error {
			return s.Runners.Admit(h.Spec.WorkflowSpec)
		},
		Guards: s.guards(appcontext.HookRun),
	})
	resource.Mount(r, s.DB, resource.Def[v2.WorkerIntent]{
		Kind: "WorkerIntent", Orphan: "HookIntent not found",
		Collection: workerPath, Item: "{workerIntent}", Put: resource.PutUpsert,
	})
	resource.Mount(r, s.DB, resource.Def[v2.WorkflowIntent]{
		Kind: "WorkflowIntent", Orphan: "DeploymentIntentGroup not found",
		Collection: workflowsPath, Item: "{workflowIntent}",
		Check:  func(_ context.Context, _ resource.Place, w v2.WorkflowIntent) error { return s.Runners.Admit(w.Spec) },
		Guards: s.guards(appcontext.StartedRun),
	})
	s.mountActions(r)
}

// guards keep an intent while a run of it is not over, and remove its last run with it.
func (s Resources) guards(nameOf func(intent string) appcontext.RunName) resource.Guards {
	return resource.Guards{
		Delete: func(ctx context.Context, doc store.Doc) error {
			group, name := path.Dir(path.Dir(string(doc.Key))), nameOf(path.Base(string(doc.Key)))
			uid, head, err := s.deployment(ctx, store.Key(group))
			if err != nil {
				return err
			}
			run, err := s.Contexts.Run(ctx, uid, name)
			switch {
			case errs.Is(err, errs.NotFound):
				return nil
			case err != nil:
				return err
			case run.State == v2.RunRunning, !workflow.Complete(run) && run.Hook != "" && workflow.Wanted(run, head), run.State == v2.RunWaiting && run.Hook == "":
				return errs.New(errs.Conflict, fmt.Sprintf("a run of it is %s; cancel, skip or abort it first", run.State))
			}
			return nil
		},
		Deleted: func(ctx context.Context, doc store.Doc) error {
			uid, _, err := s.deployment(ctx, store.Key(path.Dir(path.Dir(string(doc.Key)))))
			if errs.Is(err, errs.NotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			return s.Contexts.ForgetRun(ctx, uid, nameOf(path.Base(string(doc.Key))))
		},
	}
}

// deployment returns the id and the head of a group's deployment; a nil head if nothing was done with the group
// yet.
func (s Resources) deployment(ctx context.Context, group store.Key) (appcontext.HeadID, *appcontext.Head, error) {
	doc, err := s.DB.Get(ctx, group)
	if err != nil {
		return "", nil, store.NotFoundAs(err, "DeploymentIntentGroup not found")
	}
	uid := appcontext.HeadID(doc.UID)
	head, err := headOf(ctx, s.Contexts, uid)
	return uid, head, err
}

// headOf returns a head; nil if it does not exist.
func headOf(ctx context.Context, contexts *appcontext.Store, uid appcontext.HeadID) (*appcontext.Head, error) {
	head, err := contexts.Head(ctx, uid)
	switch {
	case errs.Is(err, errs.NotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &head, nil
}
