package dcm

import (
	"context"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
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
		Check:  checkLevel,
		Guards: s.Clouds,
	})
	resource.Mount(r, s.DB, resource.Def[v2.ClusterReference]{
		Kind: "Cluster Reference", Orphan: "LogicalCloud not found", Explicit: true,
		Collection: "projects/{project}/logical-clouds/{logicalCloud}/cluster-references", Item: "{clusterReference}",
		Refs: func(_ resource.Place, c v2.ClusterReference) []store.Ref {
			key := v2.NewClusterKey(c.Spec.ClusterProvider, c.Spec.Cluster)
			return []store.Ref{{Key: store.Key(key.StoreKey()), Must: true}}
		},
		Guards: s.References,
	})
}

// checkLevel refuses levels that would be stored but have no effect.
func checkLevel(_ context.Context, _ resource.Place, l v2.LogicalCloud) error {
	if l.Spec.Level != v2.LevelAdmin {
		return errs.New(errs.Invalid, "Invalid Input:\n- spec.level: logical clouds of level 1 are not supported yet; set it to \"0\"")
	}
	return nil
}
