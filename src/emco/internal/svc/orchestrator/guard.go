package orchestrator

import (
	"context"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Replaceable refuses changes to a group that has left the state Created, in EMCO's words.
func (g *Groups) Replaceable(ctx context.Context, doc store.Doc) error {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return err
	}
	if head.State != appcontext.Created {
		return errs.New(errs.Conflict, "The specified DeploymentIntentGroup is not in Created status")
	}
	return nil
}

// Deletable refuses to delete a group that is wanted, or of which something is still
// being removed. One that could not be removed, or whose removal was stopped, may be
// deleted, as in EMCO; rsync goes on trying to remove what is left. What moved to another
// group is not this one's any more.
func (g *Groups) Deletable(ctx context.Context, doc store.Doc) error {
	_, err := g.deletable(ctx, doc)
	return err
}

func (g *Groups) deletable(ctx context.Context, doc store.Doc) (appcontext.Head, error) {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	switch {
	case err != nil:
		return head, err
	case head.State.Live():
		return head, errs.New(errs.Conflict, "the group is instantiated; terminate it before it is deleted")
	case !head.Owns() || head.Stopped:
		return head, nil
	}
	status, err := g.progress(ctx, head)
	if err == nil && status == v2.StatusTerminating {
		err = errs.New(errs.Conflict, "the group is being terminated; delete it when its status is Terminated")
	}
	return head, err
}

// Deleted removes what the AppContext holds of a group whose document is about to go.
// Conflict if it was instantiated since it was found to be deletable.
func (g *Groups) Deleted(ctx context.Context, doc store.Doc) error {
	head, err := g.deletable(ctx, doc)
	if err != nil {
		return err
	}
	return g.contexts.Remove(ctx, head)
}

// progress is the deployedStatus of a head's deployment.
func (g *Groups) progress(ctx context.Context, head appcontext.Head) (string, error) {
	s, err := g.reader.Snapshot(ctx, head.UID)
	return s.Deployed(), err
}
