package lifecycle

import (
	"context"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// HeadReader reads heads and the histories of deployments.
type HeadReader interface {
	// Head returns the head of a deployment, or NotFound.
	Head(ctx context.Context, id appcontext.HeadID) (appcontext.Head, error)
	// History returns a deployment's history, oldest first.
	History(ctx context.Context, id appcontext.HeadID) ([]appcontext.HistoryEntry, error)
}

// Head reads the head of a document's deployment. A deployment without any action has no
// stored head yet: Head returns one in state Created, and the action that the first write
// must record with it.
func Head(ctx context.Context, heads HeadReader, doc store.Doc) (appcontext.Head, []appcontext.HistoryEntry, error) {
	head, err := heads.Head(ctx, appcontext.HeadID(doc.UID))
	if errs.Is(err, errs.NotFound) {
		head = appcontext.Head{UID: appcontext.HeadID(doc.UID), Document: string(doc.Key), State: appcontext.Created}
		return head, []appcontext.HistoryEntry{{State: appcontext.Created, Time: doc.Created}}, nil
	}
	return head, nil, err
}

// History reads the head and all actions so far, including one that is not stored yet.
func History(ctx context.Context, heads HeadReader, doc store.Doc) (appcontext.Head, []appcontext.HistoryEntry, error) {
	head, acts, err := Head(ctx, heads, doc)
	if err == nil && acts == nil {
		acts, err = heads.History(ctx, appcontext.HeadID(doc.UID))
	}
	return head, acts, err
}

// States returns the history in the shape of upstream's answers. The context id, which
// identifies the deployment on clusters, appears with the first revision.
func States(head appcontext.Head, acts []appcontext.HistoryEntry) v2.States {
	out := v2.States{Actions: make([]v2.Action, 0, len(acts))}
	if head.LastRev > 0 {
		out.StatusCtxID = string(head.Deployment())
	}
	for _, a := range acts {
		out.Actions = append(out.Actions, v2.Action{State: a.State.String(), Instance: a.Instance, Time: a.Time, Revision: a.Revision})
	}
	return out
}
