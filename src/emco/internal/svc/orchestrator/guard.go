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
// being removed. One that could not be removed may be deleted, as in EMCO; rsync goes on
// trying to remove what is left.
func (g *Groups) Deletable(ctx context.Context, doc store.Doc) error {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return err
	}
	if head.Op != nil || head.Rev > 0 && !head.Gone {
		return errs.New(errs.Conflict, "the group is instantiated; terminate it before it is deleted")
	}
	left, err := g.contexts.Remains(ctx, head.UID)
	if err != nil {
		return err
	}
	s := situation{head: head, pairs: byKey(left)}
	if head.Gone && s.terminating() == v2.StatusTerminating {
		return errs.New(errs.Conflict, "the group is being terminated; delete it when its status is Terminated")
	}
	return nil
}

// Deleted removes what the AppContext holds of a group whose document is gone.
func (g *Groups) Deleted(ctx context.Context, doc store.Doc) error {
	return g.contexts.Delete(ctx, doc.UID)
}
