// Package addon helps services to put objects on clusters as a deployment. An addon is such a deployment: it belongs to a
// document, such as a logical cloud, and has one app, whose objects follow from that document and the ones below it, such as
// a namespace. The package decides the actions of an addon, packs its objects and publishes its revisions. The orchestrator's worker asks the service that owns the document for
// the revisions, and rsync delivers them: so an addon is retried, watched, reported and removed as any deployment is.
package addon

import (
	"context"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Publisher makes the revisions of addons.
type Publisher interface {
	// Publish makes the revision that the operation of an addon's head asks for, and returns the next
	// head. NotFound and Invalid concern the documents.
	Publish(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, doc store.Doc) (appcontext.Head, error)
}

// Publishers are the publishers by the collection of the documents that addons belong to, such as
// "logical-clouds".
type Publishers map[string]Publisher

// Of returns the publisher for a document; false if the document has no addon.
func (p Publishers) Of(key store.Key) (Publisher, bool) {
	out, found := p[key.Collection()]
	return out, found
}

// Deployments are the addons of the documents of one kind.
type Deployments struct {
	Contexts *appcontext.Store
	Executor lifecycle.Executor
	Table    lifecycle.Table
	Reader   *statusview.Reader
	Now      func() time.Time
	Noun     string // what the documents are, in messages: "the logical cloud"
}

// New returns the addons of one kind of documents, over the two stores. Reader must be set before use.
func New(db *store.DB, contexts *appcontext.Store, table lifecycle.Table, noun string) Deployments {
	return Deployments{Contexts: contexts, Executor: lifecycle.Executor{DB: db, Contexts: contexts}, Table: table, Now: time.Now, Noun: noun}
}

// Action returns the handler of an action, which executes it once for the document that find returns, and answers
// with a status and no body.
func (d Deployments) Action(a lifecycle.Action, status int, find func(*http.Request) (store.Doc, error), decide func(context.Context, lifecycle.Snapshot, lifecycle.Request) ([]appcontext.HeadChange, error)) func(http.ResponseWriter, *http.Request, bool) error {
	return func(w http.ResponseWriter, r *http.Request, dry bool) error {
		doc, err := find(r)
		if err != nil {
			return err
		}
		ask, err := lifecycle.ReadRequest(r, a, d.Now())
		if err != nil {
			return err
		}
		var unchanged *appcontext.State // the state, if nothing changes
		done, err := d.Executor.Execute(r.Context(), doc, ask, func(ctx context.Context, now lifecycle.Snapshot) ([]appcontext.HeadChange, error) {
			changes, err := decide(ctx, now, ask)
			if unchanged = nil; len(changes) == 0 {
				unchanged = &now.Head.State
			}
			return changes, err
		})
		if unchanged != nil {
			done.State = *unchanged
		}
		switch {
		case err != nil:
			return err
		case dry:
			return web.JSON(w, http.StatusOK, v2.ActionPreview{Action: a.String(), State: done.State.String()})
		}
		w.WriteHeader(status)
		return nil
	}
}

// Change returns the change that a request causes, if the table allows it. An action that needs a
// revision adds the operation that makes it. A termination makes the desired state empty.
func (d Deployments) Change(now lifecycle.Snapshot, ask lifecycle.Request) (appcontext.HeadChange, error) {
	next, err := d.Table.Next(now.Head.State, ask.Action)
	if err != nil {
		return appcontext.HeadChange{}, err
	}
	to := now.Head
	to.State, to.Op, to.Failure, to.Stopped = next, nil, "", false
	var op *appcontext.Operation
	recorded, instance, rev := next, now.LastInstance(), int64(0)
	switch ask.Action {
	case lifecycle.Terminate:
		to.Gone, to.Terminated = true, ask.At
	case lifecycle.Stop:
		to.Stopped = true
	default:
		op = newOperation(now.Head, ask)
		to.Op, to.LastRev = op, op.Rev
		instance, rev = op.Instance, op.Rev
		if ask.Action == lifecycle.Update {
			recorded = appcontext.Updated
		}
	}
	m := now.Change(to, ask.NewEntry(recorded, instance, rev))
	m.Op = op
	m.Events = []appcontext.Event{ask.NewEvent(recorded.String(), d.Noun+" is "+recorded.String(), rev)}
	return m, nil
}

// NoChange accepts a request that changes nothing. It writes only if the request has an idempotency key, which
// must be stored.
func NoChange(now lifecycle.Snapshot, ask lifecycle.Request) []appcontext.HeadChange {
	if ask.Key == "" {
		return nil
	}
	return []appcontext.HeadChange{now.Change(now.Head, ask.NewEntry(now.Head.State, "", 0))}
}

// newOperation returns the operation that makes the next revision.
func newOperation(head appcontext.Head, ask lifecycle.Request) *appcontext.Operation {
	instance := string(head.UID)
	if head.LastRev > 0 {
		instance = appcontext.NewContextID()
	}
	return &appcontext.Operation{
		ID: appcontext.NewContextID(), UID: head.UID, Kind: ask.Action.String(), Instance: instance,
		Rev: head.NextRevision(), Actor: ask.Actor, Reason: ask.Reason, At: ask.At,
	}
}

// Idle returns the head of a document's addon. Conflict, with the advice, while clusters should hold the
// addon; Conflict also while something of it is left on clusters.
func (d Deployments) Idle(ctx context.Context, doc store.Doc, advice string) (appcontext.Head, error) {
	head, _, err := lifecycle.Head(ctx, d.Contexts, doc)
	if err == nil && head.State.Live() {
		err = errs.New(errs.Conflict, d.Noun+" is instantiated; "+advice)
	}
	if err != nil || head.LastRev == 0 {
		return head, err
	}
	left, err := d.Reader.Left(ctx, head.UID)
	if err == nil && len(left) > 0 {
		err = errs.New(errs.Conflict, d.Noun+" is being terminated; wait until its status is Terminated")
	}
	return head, err
}

// Forget removes what the AppContext holds of an addon whose document is being deleted. Conflict as
// Idle.
func (d Deployments) Forget(ctx context.Context, doc store.Doc) error {
	head, err := d.Idle(ctx, doc, "terminate it before it is deleted")
	if err != nil {
		return err
	}
	return d.Contexts.Remove(ctx, head)
}
