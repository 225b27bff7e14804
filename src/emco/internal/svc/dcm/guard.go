package dcm

import (
	"context"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Deletable refuses to delete a logical cloud that is instantiated (409 in upstream EMCO).
func (c *Clouds) Deletable(ctx context.Context, doc store.Doc) error {
	return c.checkUninstantiated(ctx, doc, "terminate it before it is deleted")
}

// Replaceable refuses to change a logical cloud that is instantiated.
func (c *Clouds) Replaceable(ctx context.Context, doc store.Doc) error {
	return c.checkUninstantiated(ctx, doc, "terminate it before it is changed")
}

// Removable refuses to remove a cluster from an instantiated cloud while a live deployment
// uses the cloud: the cluster may hold a part of it.
func (c *Clouds) Removable(ctx context.Context, ref store.Doc) error {
	cloud, _, _ := strings.Cut(string(ref.Key), "/cluster-references/")
	doc, err := c.db.Get(ctx, store.Key(cloud))
	if err != nil {
		return err
	}
	return c.checkTerminable(ctx, doc)
}

// Deleted removes what the AppContext holds of a cloud whose document is being deleted.
// Conflict if the cloud was instantiated after Deletable was called.
func (c *Clouds) Deleted(ctx context.Context, doc store.Doc) error {
	head, err := c.uninstantiatedHead(ctx, doc, "terminate it before it is deleted")
	if err != nil {
		return err
	}
	return c.contexts.Remove(ctx, head)
}

func (c *Clouds) checkUninstantiated(ctx context.Context, doc store.Doc, advice string) error {
	_, err := c.uninstantiatedHead(ctx, doc, advice)
	return err
}

// uninstantiatedHead returns the head of a cloud; Conflict if the cloud is instantiated.
func (c *Clouds) uninstantiatedHead(ctx context.Context, doc store.Doc, advice string) (appcontext.Head, error) {
	head, _, err := lifecycle.Head(ctx, c.contexts, doc)
	if err == nil && head.State.Live() {
		err = errs.New(errs.Conflict, "the logical cloud is instantiated; "+advice)
	}
	if err != nil || head.LastRev == 0 {
		return head, err
	}
	left, err := c.reader.Left(ctx, head.UID)
	if err == nil && len(left) > 0 {
		err = errs.New(errs.Conflict, "the logical cloud is being terminated; wait until its status is Terminated")
	}
	return head, err
}
