// Package ovnaction owns the intents of the network controller: workloads of apps, and the interfaces that their
// pods get. It stores them; customize/ovnaction reads them when the orchestrator makes a revision.
package ovnaction

import (
	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Resources are the documents that ovnaction serves.
type Resources struct {
	DB *store.DB
}

const (
	intents    = web.GroupPath + "/network-controller-intent"
	workloads  = intents + "/{netControllerIntent}/workload-intents"
	interfaces = workloads + "/{workloadIntent}/interfaces"
)

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.NetControllerIntent]{
		Kind: "NetControllerIntent", Orphan: "DeploymentIntentGroup not found",
		Collection: intents, Item: "{netControllerIntent}", Put: resource.PutUpsert,
	})
	resource.Mount(r, s.DB, resource.Def[v2.WorkloadIntent]{
		Kind: "WorkloadIntent", Orphan: "NetControllerIntent not found",
		Collection: workloads, Item: "{workloadIntent}", Put: resource.PutUpsert,
		Refs: func(at resource.Place, d v2.WorkloadIntent) []store.Ref {
			return []store.Ref{resource.AppRef(at, d.Spec.App)}
		},
	})
	resource.Mount(r, s.DB, resource.Def[v2.InterfaceIntent]{
		Kind: "InterfaceIntent", Orphan: "WorkloadIntent not found",
		Collection: interfaces, Item: "{interfaceIntent}", Put: resource.PutUpsert,
		Unique: func(_ resource.Place, d v2.InterfaceIntent) resource.UniqueKey {
			return resource.UniqueKey{Name: d.Spec.Interface, Taken: "the workload has an interface " + d.Spec.Interface + " already"}
		},
	})
}
