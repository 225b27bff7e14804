package dcm

import (
	"context"
	"strings"

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
func (c *Clouds) Deleted(ctx context.Context, doc store.Doc) error { return c.addons.Forget(ctx, doc) }

func (c *Clouds) checkUninstantiated(ctx context.Context, doc store.Doc, advice string) error {
	_, err := c.addons.Idle(ctx, doc, advice)
	return err
}
