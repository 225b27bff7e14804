package orchestrator

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/revision"
)

// preparedRevision is what an action knows of the revision that it requests.
type preparedRevision struct {
	cloud appcontext.Head      // of the logical cloud
	op    appcontext.Operation // that makes it
}

// prepare checks everything that the next revision of a group needs, without making it: the
// apps can be placed, the outcome is that of the plan, the user confirms large removals, and
// the logical cloud is instantiated. In a migration the group is the target; otherwise it is
// the requested one itself.
//
// The plan that nextPlacements makes is for these checks only: it lets the request fail at once.
// The worker plans again when it makes the revision (Worker.try), because documents may have
// changed by then. If the request carries out a plan, the operation keeps the outcome, and the
// worker refuses another one.
func (g *Groups) prepare(ctx context.Context, requested, group lifecycle.Snapshot, req actionRequest) (out preparedRevision, err error) {
	next, outcome, err := g.nextPlacements(ctx, group.Doc, requested.Head, req.from)
	if err != nil {
		return out, err
	}
	out.op = newOperation(group.Head, req)
	if req.request.Plan != "" {
		if now := planDigest(req, requested.Head, group.Head, outcome); now != req.request.Plan {
			return out, &planChangedError{plan: req.request.Plan, now: now}
		}
		out.op.Outcome = outcome
	}
	if err := g.quotas.CheckRequest(ctx, requested.Head, group.Head, next); err != nil {
		return out, err
	}
	if !req.force {
		text, err := revision.Builder{Contexts: g.contexts, Blobs: g.contexts}.NeedsConfirmation(ctx, requested.Head, next)
		if err != nil {
			return out, err
		}
		if text != "" {
			return out, errs.New(errs.Conflict, text)
		}
	}
	out.cloud, err = g.cloudOf(ctx, group.Doc)
	return out, err
}

// nextPlacements returns the placements of the next revision, and the digest of its outcome:
// those of the earlier revision that it restores, or those that the current documents
// describe.
func (g *Groups) nextPlacements(ctx context.Context, doc store.Doc, now appcontext.Head, from int64) ([]appcontext.Placement, string, error) {
	if from > 0 {
		placements, err := g.restorablePlacements(ctx, now, from)
		return placements, plan.RestoredOutcome(from), err
	}
	p, err := g.planner.Plan(ctx, doc, now.Deployment())
	if err == nil {
		err = p.Refused()
	}
	if err != nil {
		return nil, "", err
	}
	return revision.Planned(p), p.Outcome(g.dryRunner.edition()), nil
}

// restorablePlacements returns the placements of a revision that a rollback restores.
// Objects of revisions from before a migration carry another deployment's id, so those
// revisions are refused, and so are those with clusters that are not registered any longer.
func (g *Groups) restorablePlacements(ctx context.Context, head appcontext.Head, n int64) ([]appcontext.Placement, error) {
	rev, err := g.contexts.Revision(ctx, head.UID, n)
	if err != nil {
		return nil, revisionNotFound(err, n)
	}
	if !isRestorable(head, rev) {
		return nil, errs.New(errs.Conflict, fmt.Sprintf("revision %d is from before a migration: its objects carry the id %s, and those of the deployment %s", n, rev.Deployed, head.Deployment()))
	}
	placements, err := g.contexts.Placements(ctx, head.UID, n)
	if err != nil {
		return nil, revisionNotFound(err, n)
	}
	return placements, g.planner.CheckRegistered(ctx, n, placements)
}

// isRestorable reports whether a revision's objects carry the deployment's current id.
func isRestorable(head appcontext.Head, rev appcontext.Revision) bool {
	return cmp.Or(rev.Deployed, head.UID.Deployment()) == head.Deployment()
}

// revisionNotFound makes a NotFound error name the revision.
func revisionNotFound(err error, n int64) error {
	return store.NotFoundAs(err, "revision "+strconv.FormatInt(n, 10)+" not found; GET …/revisions lists those that are kept")
}

// cloudOf returns the head of a group's logical cloud, which must be instantiated.
func (g *Groups) cloudOf(ctx context.Context, doc store.Doc) (appcontext.Head, error) {
	group, err := store.Decode[v2.DeploymentIntentGroup](doc)
	if err != nil {
		return appcontext.Head{}, err
	}
	cloud, err := g.db.Get(ctx, logicalCloudKey(compositeApp(doc), group.Spec.LogicalCloud))
	if errs.Is(err, errs.NotFound) {
		err = errs.New(errs.Invalid, "LogicalCloud not found: "+group.Spec.LogicalCloud)
	}
	if err != nil {
		return appcontext.Head{}, err
	}
	return g.instantiatedCloud(ctx, cloud)
}

// instantiatedCloud returns a logical cloud's head; Conflict if it is not instantiated.
func (g *Groups) instantiatedCloud(ctx context.Context, cloud store.Doc) (appcontext.Head, error) {
	head, err := g.contexts.Head(ctx, appcontext.HeadID(cloud.UID))
	if err != nil && !errs.Is(err, errs.NotFound) {
		return head, err
	}
	if head.State != appcontext.Instantiated {
		return head, errs.New(errs.Conflict, "the logical cloud is not instantiated; instantiate "+string(cloud.Key)+" first")
	}
	return head, nil
}

// newOperation returns the operation that makes a deployment's next revision. As in upstream EMCO,
// the first revision's instance is the deployment's own id; a revision that starts or inherits
// another deployment has an instance of its own.
func newOperation(head appcontext.Head, req actionRequest) appcontext.Operation {
	instance := string(head.UID)
	if head.LastRev > 0 || req.request.Action == lifecycle.Migrate {
		instance = appcontext.NewContextID()
	}
	return appcontext.Operation{
		ID: appcontext.NewContextID(), UID: head.UID, Kind: req.request.Action.String(), Instance: instance,
		Rev: head.NextRevision(), From: req.from, Force: req.force, Actor: req.request.Actor, Reason: req.request.Reason, At: req.request.At,
	}
}

// queue returns the change that queues the operation of a prepared revision, and the workflow hooks of the action.
// The change fails if the head of the logical cloud has changed.
func (g *Groups) queue(ctx context.Context, s lifecycle.Snapshot, to appcontext.Head, r preparedRevision, a lifecycle.Action, entries ...appcontext.HistoryEntry) (appcontext.HeadChange, error) {
	to.State, to.LastRev, to.Op, to.Failure, to.Stopped = appcontext.Instantiated, r.op.Rev, &r.op, "", false
	m := s.Change(to, entries...)
	m.Op, m.Needs = &r.op, &r.cloud
	err := g.addHooks(ctx, s.Doc.Key, &m, r.op, hookTypesOf(a))
	return m, err
}
