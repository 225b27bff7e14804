// Package dtc owns the intents of the traffic controller: services of apps, and what may reach
// them. It stores them; customize/dtc reads them when the orchestrator makes a revision. svc/orchestrator owns the
// registrations dtc-controllers.
package dtc

import (
	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Resources are the documents that dtc serves.
type Resources struct {
	DB *store.DB
}

const (
	groups       = web.GroupPath + "/traffic-group-intents"
	servers      = groups + "/{trafficGroupIntent}/inbound-intents"
	clients      = servers + "/{inboundServerIntent}/clients"
	accessPoints = clients + "/{inboundClientsIntent}/access-points"
)

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.TrafficGroupIntent]{
		Kind: "TrafficGroupIntent", Orphan: "DeploymentIntentGroup not found", Explicit: true,
		Collection: groups, Item: "{trafficGroupIntent}", Put: resource.PutCreated,
	})
	resource.Mount(r, s.DB, resource.Def[v2.InboundServer]{
		Kind: "InboundServerIntent", Orphan: "TrafficGroupIntent not found",
		Collection: servers, Item: "{inboundServerIntent}", Put: resource.PutCreated,
		Refs: func(at resource.Place, d v2.InboundServer) []store.Ref {
			return []store.Ref{resource.AppRef(at, d.Spec.App)}
		},
		Masking: &resource.Masking[v2.InboundServer]{Mask: v2.InboundServer.Masked, Unmask: (*v2.InboundServer).Unmask},
	})
	resource.Mount(r, s.DB, resource.Def[v2.InboundClient]{
		Kind: "InboundClientsIntent", Orphan: "InboundServerIntent not found",
		Collection: clients, Item: "{inboundClientsIntent}", Put: resource.PutCreated,
		Refs: func(at resource.Place, d v2.InboundClient) []store.Ref {
			return []store.Ref{resource.AppRef(at, d.Spec.App)}
		},
	})
	resource.Mount(r, s.DB, resource.Def[v2.AccessPoint]{
		Kind: "InboundClientsAccessIntent", Orphan: "InboundClientsIntent not found",
		Collection: accessPoints, Item: "{inboundClientsAccessIntent}", Put: resource.PutCreated,
	})
}
