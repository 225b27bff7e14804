package dcm

import (
	"context"
	"fmt"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/addon"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// A logical cloud of level 1 has an addon, whose objects prepare the clusters.

// decideStandard returns the changes of a request for a cloud of level 1.
func (c *Clouds) decideStandard(ctx context.Context, now lifecycle.Snapshot, ask lifecycle.Request) ([]appcontext.HeadChange, error) {
	m, err := c.addons.Change(now, ask)
	if err != nil {
		return nothingToDo(now, ask, err)
	}
	switch ask.Action {
	case lifecycle.Instantiate, lifecycle.Update:
		err = c.checkStandard(ctx, now.Doc)
	case lifecycle.Terminate:
		m.Unused, err = c.checkUnused(ctx, now.Doc)
	}
	return []appcontext.HeadChange{m}, err
}

// checkStandard requires what upstream EMCO requires of a cloud of level 1: a cluster, and a
// permission for its own namespace. No other instantiated cloud may have the same namespace on
// one of its clusters.
func (c *Clouds) checkStandard(ctx context.Context, doc store.Doc) error {
	m, err := c.model(ctx, doc)
	if err != nil {
		return err
	}
	own := func(p v2.UserPermission) bool { return p.Spec.Namespace == m.cloud.Spec.Namespace }
	if !slices.ContainsFunc(m.permissions, own) {
		return errs.New(errs.Conflict, "the logical cloud has no user permission for its own namespace "+m.cloud.Spec.Namespace+"; add one below "+string(doc.Key)+"/user-permissions")
	}
	clusters, err := c.members(ctx, doc.Key)
	if err != nil {
		return err
	}
	if len(clusters) == 0 {
		return c.checkInstantiable(ctx, doc)
	}
	return c.checkNamespace(ctx, doc, m.cloud.Spec.Namespace, clusters)
}

// checkNamespace refuses a namespace that another instantiated cloud of level 1 has on one of
// the clusters: each would give its user rights over the other's objects.
func (c *Clouds) checkNamespace(ctx context.Context, doc store.Doc, namespace string, clusters []v2.ClusterKey) error {
	for other, err := range store.All[v2.LogicalCloud](ctx, c.db, "projects", store.Query{Depth: cloudDepth}) {
		if err != nil {
			return err
		}
		if _, cloud := v2.LogicalCloudOf(string(other.Doc.Key)); !cloud || other.Doc.Key == doc.Key || other.Value.Spec.Level == v2.LevelAdmin || other.Value.Spec.Namespace != namespace {
			continue
		}
		held, err := c.hasPlacements(ctx, appcontext.HeadID(other.Doc.UID))
		if err != nil {
			return err
		}
		if !held {
			continue
		}
		theirs, err := c.members(ctx, other.Doc.Key)
		if err != nil {
			return err
		}
		for _, cluster := range theirs {
			if slices.Contains(clusters, cluster) {
				return errs.New(errs.Conflict, fmt.Sprintf("namespace %s belongs to %s on cluster %s; choose another namespace, or terminate that cloud", namespace, other.Doc.Key, cluster))
			}
		}
	}
	return nil
}

// cloudDepth is the number of segments of a logical cloud's key below "projects".
const cloudDepth = 3

// model reads the documents of a cloud.
func (c *Clouds) model(ctx context.Context, doc store.Doc) (m cloudModel, err error) {
	if m.cloud, err = store.Decode[v2.LogicalCloud](doc); err != nil {
		return m, err
	}
	for p, err := range store.All[v2.UserPermission](ctx, c.db, doc.Key+"/user-permissions", store.Query{Depth: 1}) {
		if err != nil {
			return m, err
		}
		m.permissions = append(m.permissions, p.Value)
	}
	for q, err := range store.All[v2.ClusterQuota](ctx, c.db, doc.Key+"/cluster-quotas", store.Query{Depth: 1}) {
		if err != nil {
			return m, err
		}
		m.quotas = append(m.quotas, q.Value)
	}
	return m, nil
}

// Publish makes the revision that an operation on a cloud of level 1 asks for, and returns the
// next head. Errors are those of RevisionStore.Publish; Invalid and NotFound concern the
// documents.
func (c *Clouds) Publish(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, doc store.Doc) (appcontext.Head, error) {
	m, err := c.model(ctx, doc)
	if err != nil {
		return head, err
	}
	appliers, err := c.appliers(ctx, doc.Key)
	if err != nil {
		return head, err
	}
	saved := map[applier]appcontext.Digest{}
	var places []addon.Place
	for _, a := range appliers {
		if saved[a.by] == "" {
			objects, err := m.objects(a.by)
			if err != nil {
				return head, err
			}
			if saved[a.by], err = addon.Save(ctx, contexts, cloudApp, head.Deployment(), objects); err != nil {
				return head, err
			}
		}
		places = append(places, addon.Place{Cluster: a.cluster, Bundle: saved[a.by]})
	}
	return addon.Publish(ctx, contexts, head, addon.Revision{
		App: cloudApp, Namespace: m.cloud.Spec.Namespace, Places: places,
		// The cloud itself is not confined: what prepares a cluster is applied with the
		// credentials that the cluster was registered with.
		Cloud: appcontext.Cloud{Name: v2.CloudName(doc.Key.Project(), m.cloud.Metadata.Name)},
	})
}

// clusterApplier is a cluster of a cloud, and who applies apps there.
type clusterApplier struct {
	cluster v2.ClusterKey
	by      applier
}

// appliers returns the clusters of a cloud, in order. NotFound if one is not registered.
func (c *Clouds) appliers(ctx context.Context, cloud store.Key) (out []clusterApplier, err error) {
	clusters, err := c.members(ctx, cloud)
	if err != nil {
		return nil, err
	}
	slices.Sort(clusters)
	for _, key := range slices.Compact(clusters) {
		doc, err := c.db.Get(ctx, store.Key(key.StoreKey()))
		if err != nil {
			return nil, err
		}
		cluster, err := store.Decode[v2.Cluster](doc)
		if err != nil {
			return nil, err
		}
		out = append(out, clusterApplier{key, applierOf(cluster)})
	}
	return out, nil
}
