package dcm

import (
	"context"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
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

// Removable refuses to remove a cluster from a cloud while a deployment of the cloud has something there, or may get something
// by its revision or by an operation that is under way. So a cluster can leave a cloud whose other clusters go on: the
// deployments leave the cluster first.
func (c *Clouds) Removable(ctx context.Context, ref store.Doc) error {
	reference, err := store.Decode[v2.ClusterReference](ref)
	if err != nil {
		return err
	}
	cluster := v2.NewClusterKey(reference.Spec.ClusterProvider, reference.Spec.Cluster)
	cloud, _, _ := strings.Cut(string(ref.Key), "/cluster-references/")
	deployments := map[v2.DeploymentID]store.Key{} // those that decide what clusters hold, with their documents
	for user, err := range c.users(ctx, store.Key(cloud)) {
		if err != nil {
			return err
		}
		head, err := c.contexts.Head(ctx, appcontext.HeadID(user.UID))
		switch {
		case errs.Is(err, errs.NotFound) || err == nil && !head.Owns():
			continue
		case err != nil:
			return err
		case head.Op != nil:
			return inUse(user.Key, "which has an operation under way; wait until it has ended")
		}
		places, err := c.places(ctx, head, cluster)
		if err != nil {
			return err
		}
		if places {
			return occupied(user.Key, cluster)
		}
		deployments[head.Deployment()] = user.Key
	}
	if len(deployments) == 0 {
		return nil
	}
	pairs, err := c.contexts.PairsOn(ctx, cluster) // it reads the tables of all deployments, so once
	for _, p := range pairs {
		if user, known := deployments[p.Key.Deployment]; known {
			return occupied(user, cluster)
		}
	}
	return err
}

// places reports whether the desired revision of a deployment places an app on a cluster.
func (c *Clouds) places(ctx context.Context, head appcontext.Head, cluster v2.ClusterKey) (bool, error) {
	if !head.State.Live() || head.Rev == 0 {
		return false, nil
	}
	all, err := c.contexts.DesiredPlacements(ctx, head.UID, head.Rev)
	return slices.ContainsFunc(all, func(p appcontext.Placement) bool { return p.Cluster == cluster && len(p.Apps) > 0 }), err
}

func occupied(user store.Key, cluster v2.ClusterKey) error {
	return inUse(user, "which has apps on cluster "+string(cluster)+"; place them elsewhere and update it, or terminate it, and wait until they are gone")
}

func inUse(user store.Key, why string) error {
	return errs.New(errs.Conflict, "the logical cloud is in use by "+string(user)+", "+why)
}

// Deleted removes what the AppContext holds of a cloud whose document is being deleted.
// Conflict if the cloud was instantiated after Deletable was called.
func (c *Clouds) Deleted(ctx context.Context, doc store.Doc) error { return c.addons.Forget(ctx, doc) }

func (c *Clouds) checkUninstantiated(ctx context.Context, doc store.Doc, advice string) error {
	_, err := c.addons.Idle(ctx, doc, advice)
	return err
}
