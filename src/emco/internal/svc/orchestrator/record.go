package orchestrator

import (
	"context"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// recordPublished tells the event log of a revision, and of its apps that failed. An error
// loses the lines and nothing else.
func recordPublished(ctx context.Context, contexts *appcontext.Store, op appcontext.Operation, took time.Duration) error {
	rev, err := contexts.Revision(ctx, op.UID, op.Rev)
	if err != nil {
		return err
	}
	events := []appcontext.Event{{
		UID: op.UID, Type: appcontext.Normal, Reason: "RevisionPublished", Actor: op.Actor, Rev: op.Rev,
		Message: fmt.Sprintf("revision %d is desired; %d apps rendered in %.1f s", op.Rev, rendered(rev), took.Seconds()),
	}}
	for _, a := range rev.Apps {
		if a.Failure != nil {
			events = append(events, appcontext.Event{
				UID: op.UID, Type: appcontext.Warning, Reason: "AppFailed", Message: failureText(*a.Failure), Rev: op.Rev, App: a.Name,
			})
		}
	}
	return contexts.AddEvents(ctx, events...)
}

// rendered counts the apps that a revision was rendered for.
func rendered(rev appcontext.Revision) (n int) {
	for _, a := range rev.Apps {
		if rev.From == 0 && (a.Failure == nil || a.Failure.Stage == "rendering") {
			n++
		}
	}
	return n
}

func failureText(f appcontext.Failure) string {
	text := f.Stage + ": "
	if f.File != "" {
		text += f.File + ": "
	}
	return text + f.Reason
}

// recordFailure records why the head's operation came to nothing. What a migration took over goes
// on to run, and belongs to the group.
func recordFailure(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, cause error) error {
	to := head
	to.Op, to.Failure = nil, cause.Error()
	if errs.Is(cause, errs.Internal) {
		to.Failure = "internal error; the log of the orchestrator says more"
	}
	if head.TookOver() {
		to.Failure += "; what was taken over with the id " + head.Inherited + " runs on as it was, and belongs to this group"
	}
	m := appcontext.Move{From: head, To: to}
	if head.Op != nil {
		m.Events = []appcontext.Event{{
			Type: appcontext.Warning, Reason: "OperationFailed", Message: head.Op.Kind + ": " + to.Failure, Actor: head.Op.Actor, Rev: head.Op.Rev,
		}}
	}
	_, err := contexts.Move(ctx, m)
	return err
}
