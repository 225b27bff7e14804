package orchestrator

import (
	"cmp"
	"context"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// EventAction is an action that an event asks for, and not a caller. Who asks has checked that the actor may do it.
type EventAction struct {
	Group    store.Key
	Action   string
	Revision int64 // of a rollback
	Actor    string
	Reason   string
	Key      string // requests with equal keys are one; empty for none
	DryRun   bool
}

// Act carries out an action without a request. It removes no more than an action without force=true.
func (g *Groups) Act(ctx context.Context, e EventAction) error {
	var action lifecycle.Action
	var decide decideFunc
	for a, d := range map[lifecycle.Action]decideFunc{
		lifecycle.Instantiate: g.instantiate, lifecycle.Update: g.update, lifecycle.Rollback: g.update, lifecycle.Terminate: g.terminate, lifecycle.Stop: g.stop,
	} {
		if a.String() == e.Action {
			action, decide = a, d
		}
	}
	if decide == nil {
		return errs.New(errs.Invalid, "events cannot ask for "+e.Action)
	}
	doc, err := g.groupAt(ctx, e.Group)
	if err != nil {
		return err
	}
	req := actionRequest{from: e.Revision, request: lifecycle.Request{
		Action: action, Actor: cmp.Or(e.Actor, web.Anonymous), Reason: e.Reason, Key: e.Key, At: g.now(), DryRun: e.DryRun,
	}}
	_, err = g.executor.Execute(ctx, doc, req.request, func(ctx context.Context, s lifecycle.Snapshot) ([]appcontext.HeadChange, error) {
		return decide(ctx, s, req)
	})
	return err
}

// Warn adds a line to the event log of a group. A group with which nothing was done yet has none.
func (g *Groups) Warn(ctx context.Context, group store.Key, reason, message string) error {
	doc, err := g.groupAt(ctx, group)
	if err != nil {
		return err
	}
	head, err := g.contexts.Head(ctx, appcontext.HeadID(doc.UID))
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return g.contexts.AddEvents(ctx, appcontext.Event{UID: head.UID, Type: appcontext.Warning, Reason: reason, Message: message, Rev: head.Rev})
}
