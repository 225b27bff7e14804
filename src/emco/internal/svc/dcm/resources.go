package dcm

import (
	"context"
	"encoding/json"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
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
		Guards: s.Clouds, Settle: checkNamespace, Adopt: adoptNamespace, Show: shownCloud,
	})
	resource.Mount(r, s.DB, resource.Def[v2.ClusterReference]{
		Kind: "Cluster Reference", Orphan: "LogicalCloud not found", Explicit: true,
		Collection: "projects/{project}/logical-clouds/{logicalCloud}/cluster-references", Item: "{clusterReference}",
		Needs: func(_ resource.Place, c v2.ClusterReference) []store.Key {
			return []store.Key{store.Key(v2.NewClusterKey(c.Spec.ClusterProvider, c.Spec.Cluster).StoreKey())}
		},
		Check: mayUseCluster, Forbids: "the caller may not read the cluster",
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

// adminNamespace is the namespace of clouds of level 0, which EMCO sets.
const adminNamespace = "default"

// checkNamespace refuses a new cloud in a namespace of the system.
func checkNamespace(_ context.Context, _ resource.Place, c *v2.LogicalCloud) error {
	return c.Spec.CheckNamespace()
}

// adoptNamespace has a PUT of a cloud of level 0 keep the namespace that is stored: answers show another one, and what was
// read may be sent back. It refuses a move of a cloud of level 1 to a namespace of the system.
func adoptNamespace(c *v2.LogicalCloud, secret seal.Secret, old v2.LogicalCloud, _ seal.Secret) (seal.Secret, error) {
	if c.Spec.Level == v2.LevelAdmin && old.Spec.Level == v2.LevelAdmin {
		c.Spec.Namespace = old.Spec.Namespace
	}
	if c.Spec.Level == old.Spec.Level && c.Spec.Namespace == old.Spec.Namespace {
		return secret, nil
	}
	return secret, c.Spec.CheckNamespace()
}

// shownCloud shows a logical cloud as upstream EMCO does: with the namespace that level 0 has, and with null for no labels.
func shownCloud(c v2.LogicalCloud) ([]byte, error) {
	var out struct {
		v2.Named
		Spec struct {
			v2.LogicalCloudSpec
			Labels map[string]string `json:"labels"`
		} `json:"spec"`
	}
	if c.Spec.Level == v2.LevelAdmin {
		c.Spec.Namespace = adminNamespace
	}
	out.Named, out.Spec.LogicalCloudSpec, out.Spec.Labels = c.Named, c.Spec, c.Spec.Labels
	return json.Marshal(out)
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
