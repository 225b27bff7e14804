// Package workflowmgr owns upstream's services tac and workflowmgr: hooks, which run workflows before and
// after actions on deployments, and workflows that users start. It stores the intents, and
// carries out the runs. The orchestrator writes the runs of hooks together with the head of the action. When those before the action have
// ended, workflowmgr releases the operation: the orchestrator carries it out, or, for a termination, rsync removes.
package workflowmgr

import (
	"context"
	"fmt"
	"path"
	"slices"
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

// Bounds of a group: all its runs are listed for each request and each change.
const (
	maxHooks     = 96  // of all types
	maxWorkflows = 256 // that users start
)

// notAllowed says when Runners.Admit answers Forbidden.
const notAllowed = "the operator does not allow its runner, or what it calls (`workflows`)"

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.HookIntent]{
		Kind: "HookIntent", Orphan: "DeploymentIntentGroup not found",
		Collection: hookPath, Item: "{hookIntent}", Put: resource.PutUpsert,
		AtMost:  maxHooks,
		Forbids: notAllowed,
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
		AtMost:  maxWorkflows,
		Forbids: notAllowed,
		Check: func(_ context.Context, _ resource.Place, w v2.WorkflowIntent) error {
			return s.Runners.Admit(w.Spec)
		},
		Guards: s.guards(appcontext.StartedRun),
	})
	s.mountActions(r)
}

// guards keep an intent while a run of it is not over, and remove its last run with it.
func (s Resources) guards(nameOf func(intent string) appcontext.RunName) resource.Guards {
	return resource.Guards{
		Delete: func(ctx context.Context, doc store.Doc) error {
			group, name := store.Key(path.Dir(path.Dir(string(doc.Key)))), nameOf(path.Base(string(doc.Key)))
			_, head, run, err := s.lastRun(ctx, group, name)
			switch {
			case err != nil:
				return err
			case run.State == v2.RunRunning, !workflow.Passed(run, head) && run.Hook != "" && workflow.Wanted(run, head), run.State == v2.RunWaiting && run.Hook == "":
				return errs.New(errs.Conflict, fmt.Sprintf("a run of it is %s; cancel, skip or abort it first", run.State))
			}
			return nil
		},
		Deleted: func(ctx context.Context, doc store.Doc) error {
			uid, err := s.deployment(ctx, store.Key(path.Dir(path.Dir(string(doc.Key)))))
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

// deployment returns the id of a group's deployment.
func (s Resources) deployment(ctx context.Context, group store.Key) (appcontext.HeadID, error) {
	doc, err := s.DB.Get(ctx, group)
	return appcontext.HeadID(doc.UID), store.NotFoundAs(err, "DeploymentIntentGroup not found")
}

// lastRun returns a run of a group, NotStarted if there is none, with all runs of the group and the head that decides
// about them; a nil head if nothing was done with the group yet.
func (s Resources) lastRun(ctx context.Context, group store.Key, name appcontext.RunName) (all []appcontext.WorkflowRun, head *appcontext.Head, run appcontext.WorkflowRun, err error) {
	uid, err := s.deployment(ctx, group)
	if err != nil {
		return nil, nil, run, err
	}
	head, all, err = s.Contexts.HeadAndRuns(ctx, uid)
	run = appcontext.WorkflowRun{UID: uid, Name: name, Group: string(group), State: v2.RunNotStarted}
	if i := slices.IndexFunc(all, func(r appcontext.WorkflowRun) bool { return r.Name == name }); i >= 0 {
		run = all[i]
	}
	return all, head, run, err
}
