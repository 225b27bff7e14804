// Package hpa owns the intents of hardware needs. It stores them; customize/hpa reads them when the
// orchestrator places apps and makes a revision.
package hpa

import (
	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Resources are the documents that hpa serves.
type Resources struct {
	DB *store.DB
}

const (
	intents      = web.GroupPath + "/hpa-intents"
	consumers    = intents + "/{hpaIntent}/hpa-resource-consumers"
	requirements = consumers + "/{hpaConsumer}/resource-requirements"
)

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.HPAIntent]{
		Kind: "HpaIntent", Orphan: "DeploymentIntentGroup not found",
		Collection: intents, Item: "{hpaIntent}", Put: resource.PutOK, Clear: true,
		Refs: func(at resource.Place, d v2.HPAIntent) []store.Ref {
			return []store.Ref{resource.AppRef(at, d.Spec.App)}
		},
	})
	resource.Mount(r, s.DB, resource.Def[v2.HPAConsumer]{
		Kind: "HpaResourceConsumer", Orphan: "HpaIntent not found",
		Collection: consumers, Item: "{hpaConsumer}", Put: resource.PutOK, Clear: true,
	})
	resource.Mount(r, s.DB, resource.Def[v2.HPAResource]{
		Kind: "HpaResourceRequirement", Orphan: "HpaResourceConsumer not found",
		Collection: requirements, Item: "{hpaResource}", Put: resource.PutOK, Clear: true,
	})
}
