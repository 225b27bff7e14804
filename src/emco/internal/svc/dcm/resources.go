package dcm

import (
	"context"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Resources are the documents that dcm serves.
type Resources struct {
	DB         *store.DB
	Clouds     resource.Guards // for logical clouds
	References resource.Guards // for cluster references
}

// NewResources returns the documents, guarded by the clouds' lifecycle.
func NewResources(db *store.DB, c *Clouds) Resources {
	return Resources{
		DB:         db,
		Clouds:     resource.Guards{Replace: c.Replaceable, Delete: c.Deletable, Deleted: c.Deleted},
		References: resource.Guards{Delete: c.Removable},
	}
}

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.LogicalCloud]{
		Kind: "LogicalCloud", Orphan: "Project not found", Explicit: true,
		Collection: "projects/{project}/logical-clouds", Item: "{logicalCloud}", Put: resource.PutCreated,
		Guards: s.Clouds,
	})
	resource.Mount(r, s.DB, resource.Def[v2.ClusterReference]{
		Kind: "Cluster Reference", Orphan: "LogicalCloud not found", Explicit: true,
		Collection: "projects/{project}/logical-clouds/{logicalCloud}/cluster-references", Item: "{clusterReference}",
		Refs: func(_ resource.Place, c v2.ClusterReference) []store.Ref {
			key := v2.NewClusterKey(c.Spec.ClusterProvider, c.Spec.Cluster)
			return []store.Ref{{Key: store.Key(key.StoreKey()), Must: true}}
		},
		Check:  mayUseCluster,
		Guards: s.References,
	})
	resource.Mount(r, s.DB, resource.Def[v2.UserPermission]{
		Kind: "UserPermission", Orphan: "LogicalCloud not found",
		Collection: cloudDocuments + "/user-permissions", Item: "{userPermission}", Put: resource.PutOK,
	})
	resource.Mount(r, s.DB, resource.Def[v2.ClusterQuota]{
		Kind: "Cluster Quota", Orphan: "LogicalCloud not found", Explicit: true,
		Collection: cloudDocuments + "/cluster-quotas", Item: "{clusterQuota}", Put: resource.PutOK,
		Check: s.checkQuota,
	})
	resource.Mount(r, s.DB, resource.Def[v2.KV]{
		Kind: "KV Pair", Orphan: "LogicalCloud not found",
		Collection: cloudDocuments + "/kv-pairs", Item: "{logicalCloudKv}", Put: resource.PutOK,
	})
}

// cloudDocuments is the collection path of a logical cloud's own documents.
const cloudDocuments = "projects/{project}/logical-clouds/{logicalCloud}"

// mayUseCluster refuses clusters of providers that the caller may not read, whether they exist or not: a project
// takes only what it was given.
func mayUseCluster(ctx context.Context, _ resource.Place, c v2.ClusterReference) error {
	place := v2.ProviderStoreKey(c.Spec.ClusterProvider)
	if authz.From(ctx).May(authz.Get, "clusters", place) {
		return nil
	}
	return errs.New(errs.Forbidden, "a cluster reference needs the permission to get clusters in "+place)
}

// checkQuota refuses quotas of clouds of level 0, which have no namespace of their own.
func (s Resources) checkQuota(ctx context.Context, at resource.Place, _ v2.ClusterQuota) error {
	doc, err := s.DB.Get(ctx, at.Parent)
	if err != nil {
		return err
	}
	cloud, err := store.Decode[v2.LogicalCloud](doc)
	if err == nil && cloud.Spec.Level == v2.LevelAdmin {
		err = errs.New(errs.Invalid, "Cluster Quotas not allowed for Logical Cloud Level 0")
	}
	return err
}
