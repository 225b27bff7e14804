package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxActionBody is the size limit of an action's body, in bytes.
const maxActionBody = 64 << 10

// actionRequest is a request for an action, including its body.
type actionRequest struct {
	request lifecycle.Request
	force   bool           // the user confirms large removals
	from    int64          // rollback: the revision to restore
	target  v2.MigrateSpec // migrate: the group that takes over
	promote v2.PromoteSpec // promote: how far
}

// decideFunc returns the changes that an action causes, the requested group's first.
type decideFunc func(ctx context.Context, s lifecycle.Snapshot, req actionRequest) ([]appcontext.HeadChange, error)

// action handles an action: it executes what decide returns, once.
func (g *Groups) action(a lifecycle.Action, decide decideFunc) web.HandlerFunc {
	act := g.actionOrState(a, decide)
	return func(w http.ResponseWriter, r *http.Request) error { return act(w, r, false) }
}

// actionOrState is action for those that have no plan: a dry run answers with the state that the
// action would lead to.
func (g *Groups) actionOrState(a lifecycle.Action, decide decideFunc) func(http.ResponseWriter, *http.Request, bool) error {
	return func(w http.ResponseWriter, r *http.Request, dry bool) error {
		doc, err := g.group(r)
		if err != nil {
			return err
		}
		req, err := g.readActionRequest(w, r, a)
		if err != nil {
			return err
		}
		done, err := g.executor.Execute(r.Context(), doc, req.request, func(ctx context.Context, s lifecycle.Snapshot) ([]appcontext.HeadChange, error) {
			return decide(ctx, s, req)
		})
		if changed, ok := errors.AsType[*planChangedError](err); ok {
			return g.planChanged(r.Context(), doc, req, changed)
		}
		if err != nil {
			return err
		}
		if dry {
			return web.JSON(w, http.StatusOK, v2.ActionPreview{Action: a.String(), State: done.State.String()})
		}
		if a == lifecycle.Update { // upstream EMCO answers the bare number
			return web.JSON(w, http.StatusAccepted, done.Revision)
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
}

// readActionRequest reads an action's parameters and body. Only rollback, migrate and promote have a
// body; a description in it is the reason.
func (g *Groups) readActionRequest(w http.ResponseWriter, r *http.Request, a lifecycle.Action) (out actionRequest, err error) {
	if out.request, err = lifecycle.ReadRequest(r, a, g.now()); err != nil {
		return out, err
	}
	switch s := r.URL.Query().Get("force"); s {
	case "", "false":
	case "true":
		out.force = true
	default:
		return out, errs.New(errs.Invalid, "Invalid query force: "+strconv.Quote(s)+" is neither true nor false")
	}
	switch a {
	case lifecycle.Rollback:
		body, err := decodeBody[v2.Rollback](w, r)
		if err == nil {
			out.from, err = body.Number()
		}
		out.request.Argument = strconv.FormatInt(out.from, 10)
		out.request.Reason = cmp.Or(body.Metadata.Description, out.request.Reason)
		return out, err
	case lifecycle.Migrate:
		body, err := decodeBody[v2.Migrate](w, r)
		if err == nil {
			err = body.Validate()
		}
		out.target = body.Spec
		out.request.Argument = out.target.Version + "/" + out.target.Group
		out.request.Reason = cmp.Or(body.Metadata.Description, out.request.Reason)
		return out, err
	case lifecycle.Promote:
		body, err := decodePromote(w, r)
		out.promote = body.Spec
		out.request.Argument = fmt.Sprintf("revision %d, wave %d, full %t", body.Spec.Revision, body.Spec.Wave, body.Spec.Full)
		out.request.Reason = cmp.Or(body.Metadata.Description, out.request.Reason)
		return out, err
	}
	return out, nil
}

func decodeBody[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	body, err := web.Body(w, r, maxActionBody)
	if err != nil {
		return *new(T), err
	}
	return v2.Decode[T](body, v2.Lenient)
}

// decodePromote returns the body of a promotion, which may be empty. Unknown members are refused: upstream EMCO has no promotions.
func decodePromote(w http.ResponseWriter, r *http.Request) (v2.Promote, error) {
	body, err := web.Body(w, r, maxActionBody)
	if err != nil || len(body) == 0 {
		return v2.Promote{}, err
	}
	p, err := v2.Decode[v2.Promote](body, v2.Strict)
	if err == nil {
		err = p.Validate()
	}
	return p, err
}

// approve allows the group to be instantiated. Approving an approved group does nothing,
// unless the request has an idempotency key, which must be stored.
//
// It refuses intents for controllers that cannot be called: instantiate would. Intents that
// are missing may still come.
func (g *Groups) approve(ctx context.Context, s lifecycle.Snapshot, req actionRequest) ([]appcontext.HeadChange, error) {
	next, err := g.table.Next(s.Head.State, lifecycle.Approve)
	if err == nil && s.Head.Op != nil && s.Head.Op.Terminates() {
		err = errs.New(errs.Conflict, "the termination waits for its hooks; approve the group when it is terminated, or abort the termination at a hook")
	}
	if err == nil {
		err = g.planner.CheckIntents(ctx, s.Doc.Key)
	}
	if err != nil {
		return nil, err
	}
	reviewed, err := g.fourEyes(ctx, s, req.request)
	if err != nil || next == s.Head.State && req.request.Key == "" && isReviewed(s.History, reviewed) {
		return nil, err
	}
	to := s.Head
	to.State, to.Stopped = next, false
	entry := req.request.NewEntry(next, "", 0)
	entry.Reviewed = reviewed
	return []appcontext.HeadChange{withEvents(s.Change(to, entry), req.request.NewEvent(v2.EventReasonApproved, "approved", 0))}, nil
}

// instantiate checks everything that can be checked at once and queues the operation. From
// then on the state in the head is Instantiated, because that is desired. The status that users
// see follows from the head and the pairs (statusview.Snapshot.Deployed): it is Instantiating
// until the worker has published the revision and all clusters have it. If the group's
// deployment has migrated to another group, instantiate starts a new deployment with a new id.
func (g *Groups) instantiate(ctx context.Context, s lifecycle.Snapshot, req actionRequest) ([]appcontext.HeadChange, error) {
	if err := g.checkAllowed(ctx, s.Head, lifecycle.Instantiate); err != nil {
		return nil, err
	}
	reviewed, err := g.fourEyes(ctx, s, req.request)
	if err != nil {
		return nil, err
	}
	ready, err := g.prepare(ctx, s, s, req)
	if err != nil {
		return nil, err
	}
	op, to := ready.op, s.Head
	if !to.Owns() {
		to.Inherited, to.MovedTo = v2.DeploymentID(op.Instance), ""
	}
	entry := req.request.NewEntry(appcontext.Instantiated, op.Instance, op.Rev)
	entry.Reviewed = reviewed
	m, err := g.queue(ctx, s, to, ready, req.request.Action, entry)
	if err != nil {
		return nil, err
	}
	return []appcontext.HeadChange{withEvents(m, req.request.NewEvent(v2.EventReasonInstantiated, fmt.Sprintf("revision %d was requested", op.Rev), op.Rev))}, nil
}

// update queues the next revision of an instantiated group: an update is made from the
// current documents; a rollback has an earlier revision's content on the same clusters.
func (g *Groups) update(ctx context.Context, s lifecycle.Snapshot, req actionRequest) ([]appcontext.HeadChange, error) {
	if err := g.checkAllowed(ctx, s.Head, req.request.Action); err != nil {
		return nil, err
	}
	reviewed, err := g.fourEyes(ctx, s, req.request)
	if err != nil {
		return nil, err
	}
	ready, err := g.prepare(ctx, s, s, req)
	if err != nil {
		return nil, err
	}
	op := ready.op
	entry := req.request.NewEntry(appcontext.Instantiated, op.Instance, op.Rev)
	entry.Reviewed = reviewed
	m, err := g.queue(ctx, s, s.Head, ready, req.request.Action, req.request.NewEntry(appcontext.Updated, s.LastInstance(), s.Head.LastRev), entry)
	if err != nil {
		return nil, err
	}
	event := req.request.NewEvent(v2.EventReasonUpdated, fmt.Sprintf("revision %d was requested", op.Rev), op.Rev)
	if req.from > 0 {
		event = req.request.NewEvent(v2.EventReasonRolledBack, fmt.Sprintf("revision %d restores revision %d", op.Rev, req.from), op.Rev)
	}
	return []appcontext.HeadChange{withEvents(m, event)}, nil
}

// migrate hands the deployment over to another group, in one transaction over both heads.
// The deployment keeps its id on clusters, so only what differs between the two groups
// changes there. From then on the target owns the deployment, even if the operation that
// makes its revision fails.
func (g *Groups) migrate(ctx context.Context, s lifecycle.Snapshot, req actionRequest) ([]appcontext.HeadChange, error) {
	next, err := g.table.Next(s.Head.State, lifecycle.Migrate)
	if err != nil {
		return nil, err
	}
	target, err := g.migrationTarget(ctx, s.Doc, req.target)
	if err == nil {
		_, err = g.fourEyes(ctx, target, req.request)
	}
	if err != nil {
		return nil, err
	}
	ready, err := g.prepare(ctx, s, target, req)
	if err != nil {
		return nil, err
	}
	op := ready.op
	m, err := g.queue(ctx, target, inheritingHead(target.Head, s.Head), ready, req.request.Action, req.request.NewEntry(appcontext.Instantiated, op.Instance, op.Rev))
	if err != nil {
		return nil, err
	}
	return []appcontext.HeadChange{
		withEvents(s.Change(releasedHead(s.Head, target.Head, next), req.request.NewEntry(next, s.LastInstance(), s.Head.LastRev)),
			req.request.NewEvent(v2.EventReasonMigrated, "the deployment now belongs to "+string(target.Doc.Key), 0)),
		withEvents(m,
			req.request.NewEvent(v2.EventReasonInstantiated, fmt.Sprintf("revision %d was requested; it replaces the deployment of %s", op.Rev, s.Doc.Key), op.Rev)),
	}, nil
}

// releasedHead returns a source's head after its migration: it desires and owns nothing.
func releasedHead(source, target appcontext.Head, state appcontext.State) appcontext.Head {
	source.State, source.MovedTo = state, target.UID
	source.Rev, source.Op, source.Failure, source.Gone, source.Stopped = 0, nil, "", false, false
	return source
}

// inheritingHead returns a target's head that owns the source's deployment and has no
// revision for it yet.
func inheritingHead(target, source appcontext.Head) appcontext.Head {
	target.Inherited, target.MovedTo = source.Deployment(), ""
	target.Rev, target.Gone, target.Use = 0, false, source.Use
	return target
}

// migrationTarget reads the group that will take over. It must be Approved, and clusters
// must hold nothing of what it deployed before: under another deployment's id, that would
// never be removed.
func (g *Groups) migrationTarget(ctx context.Context, source store.Doc, to v2.MigrateSpec) (lifecycle.Snapshot, error) {
	app := compositeApp(source)
	app.Version = to.Version
	key := store.Key(v2.GroupKey{CompositeApp: app, Name: to.Group}.StoreKey())
	if key == source.Key {
		return lifecycle.Snapshot{}, errs.New(errs.Invalid, "Invalid Input:\n- spec: the target is the group itself; update it instead")
	}
	doc, err := g.groupAt(ctx, key)
	if err != nil {
		return lifecycle.Snapshot{}, store.NotFoundAs(err, "DeploymentIntentGroup not found: "+string(key))
	}
	target, err := g.executor.Load(ctx, doc)
	if err != nil {
		return target, err
	}
	if _, err := g.table.Next(target.Head.State, lifecycle.Adopt); err != nil {
		return target, errs.New(errs.Conflict, fmt.Sprintf("the target %s is %s; it must be Approved and must not run", key, target.Head.State))
	}
	if target.Head.LastRev == 0 || !target.Head.Owns() {
		return target, nil
	}
	left, err := g.reader.Left(ctx, target.Head.UID)
	if err == nil && len(left) > 0 {
		err = errs.New(errs.Conflict, fmt.Sprintf("the target is still being terminated: %d placements are left; migrate when its status is Terminated", len(left)))
	}
	return target, err
}

// terminate makes nothing the desired state. A revision that is being made is dropped when
// its worker publishes it, because the head has changed. A termination that failed is tried
// again. Hooks run before the first removal only.
func (g *Groups) terminate(ctx context.Context, s lifecycle.Snapshot, req actionRequest) ([]appcontext.HeadChange, error) {
	next, err := g.table.Next(s.Head.State, lifecycle.Terminate)
	if err != nil {
		return nil, err
	}
	if err := g.checkCondition(ctx, s.Head, lifecycle.Terminate); err != nil {
		return nil, err
	}
	to, when := s.Head, hookTypesOf(lifecycle.Terminate)
	to.State, to.Op, to.Failure, to.Stopped, to.Terminated = next, nil, "", false, req.request.At
	if to.Gone || to.Rev == 0 && !s.Head.TookOver() { // nothing is left to prepare
		when.before = ""
	}
	m := s.Change(to, req.request.NewEntry(next, s.LastInstance(), 0))
	op := appcontext.Operation{
		ID: appcontext.NewContextID(), UID: s.Head.UID, Kind: appcontext.OperationTerminate, Rev: s.Head.Rev, Actor: req.request.Actor,
		Reason: req.request.Reason, At: req.request.At, Before: s.Head.State, Failure: s.Head.Failure,
	}
	if dropped := s.Head.Op; dropped != nil {
		op.Failure = fmt.Sprintf("revision %d was dropped by a termination that was aborted; update again", dropped.Rev)
	}
	if err := g.addHooks(ctx, s.Doc.Key, &m, op, when); err != nil {
		return nil, err
	}
	event := req.request.NewEvent(v2.EventReasonTerminated, "nothing is desired when the hooks before it are complete", 0)
	if m.To.Op == nil {
		m.To.Gone = true
		event = req.request.NewEvent(v2.EventReasonTerminated, "nothing is desired any longer", 0)
	}
	return []appcontext.HeadChange{withEvents(m, event)}, nil
}

// stop stops reconciling the deployment. What is done stays: a revision that is being made
// is dropped, and what has not reached its cluster yet will not. A termination that waits for
// hooks is called off: the deployment runs.
func (g *Groups) stop(ctx context.Context, s lifecycle.Snapshot, req actionRequest) ([]appcontext.HeadChange, error) {
	next, err := g.table.Next(s.Head.State, lifecycle.Stop)
	if err != nil {
		return nil, err
	}
	if err := g.checkCondition(ctx, s.Head, lifecycle.Stop); err != nil {
		return nil, err
	}
	to := s.Head
	if to.Op != nil && to.Op.Terminates() { // it has removed nothing yet
		next = appcontext.InstantiateStopped
	}
	to.State, to.Stopped, to.Op = next, true, nil
	return []appcontext.HeadChange{withEvents(s.Change(to, req.request.NewEntry(next, s.LastInstance(), 0)), req.request.NewEvent(v2.EventReasonStopped, "the deployment is no longer reconciled", 0))}, nil
}

// checkAllowed refuses an action that the table does not allow in the head's state. An
// instantiated group may be instantiated again only if it failed.
func (g *Groups) checkAllowed(ctx context.Context, head appcontext.Head, a lifecycle.Action) error {
	if _, err := g.table.Next(head.State, a); err != nil {
		return err
	}
	return g.checkCondition(ctx, head, a)
}

// checkCondition refuses an action whose condition in the table does not hold.
func (g *Groups) checkCondition(ctx context.Context, head appcontext.Head, a lifecycle.Action) error {
	allowed := map[lifecycle.Condition][]string{
		lifecycle.Failed:   {v2.StatusInstantiateFailed, v2.StatusTerminateFailed},
		lifecycle.UnderWay: {v2.StatusInstantiating, v2.StatusTerminating},
	}[g.table.If(head.State, a)]
	if allowed == nil {
		return nil
	}
	status, err := g.deployedStatus(ctx, head)
	if err == nil && !slices.Contains(allowed, status) {
		err = g.table.Refuse(head.State, status, a)
	}
	return err
}

// withEvents adds the change's entries in the event log.
func withEvents(m appcontext.HeadChange, events ...appcontext.Event) appcontext.HeadChange {
	m.Events = events
	return m
}
