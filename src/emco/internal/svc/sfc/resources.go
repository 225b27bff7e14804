// Package sfc owns the intents of service function chains and of their clients. It stores them; customize/sfc reads
// them when the orchestrator makes a revision.
package sfc

import (
	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Resources are the documents that sfc serves.
type Resources struct {
	DB *store.DB
}

const (
	chains = web.GroupPath + "/network-chains"
	chain  = chains + "/{sfcIntent}"
)

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.NetworkChain]{
		Kind: "SfcIntent", Orphan: "DeploymentIntentGroup not found",
		Collection: chains, Item: "{sfcIntent}", Put: resource.PutCreated,
	})
	resource.Mount(r, s.DB, resource.Def[v2.ChainLink]{
		Kind: "SfcLinkIntent", Orphan: "SfcIntent not found",
		Collection: chain + "/links", Item: "{sfcLink}", Put: resource.PutCreated,
		Refs: func(at resource.Place, d v2.ChainLink) []store.Ref {
			return []store.Ref{resource.AppRef(at, d.Spec.App)}
		},
	})
	resource.Mount(r, s.DB, resource.Def[v2.ChainClientSelector]{
		Kind: "SfcClientSelectorIntent", Orphan: "SfcIntent not found",
		Collection: chain + "/client-selectors", Item: "{sfcClientSelector}", Put: resource.PutCreated,
	})
	resource.Mount(r, s.DB, resource.Def[v2.ChainProviderNetwork]{
		Kind: "SfcProviderNetworkIntent", Orphan: "SfcIntent not found",
		Type:       "chain-networks", // roles must not give provider networks of clusters with it
		Collection: chain + "/provider-networks", Item: "{sfcProviderNetwork}", Put: resource.PutCreated,
	})
	resource.Mount(r, s.DB, resource.Def[v2.ChainClient]{
		Kind: "SfcClientIntent", Orphan: "DeploymentIntentGroup not found",
		Collection: web.GroupPath + "/sfc-clients", Item: "{sfcClientIntent}", Put: resource.PutCreated,
		Refs: func(at resource.Place, d v2.ChainClient) []store.Ref {
			return []store.Ref{resource.AppRef(at, d.Spec.App), {Key: store.Key(d.Spec.ChainStoreKey(web.Group(at.Vars)))}}
		},
	})
}
