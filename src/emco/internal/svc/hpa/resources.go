// Package hpa owns the intents of hardware platform awareness: what workloads need of CPU, memory, devices and node
// labels. It stores them; customize/hpa reads them when the orchestrator places apps and makes a revision.
package hpa

import (
	"context"
	"net/url"
	"slices"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
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
		Queries: []resource.Query{{Param: "intent", Answer: s.named("intent")}},
		Refs: func(at resource.Place, d v2.HPAIntent) []store.Ref {
			return []store.Ref{resource.AppRef(at, d.Spec.App)}
		},
	})
	resource.Mount(r, s.DB, resource.Def[v2.HPAConsumer]{
		Kind: "HpaResourceConsumer", Orphan: "HpaIntent not found",
		Collection: consumers, Item: "{hpaConsumer}", Put: resource.PutOK, Clear: true,
		Queries: []resource.Query{{Param: "consumer", Answer: s.named("consumer")}},
	})
	resource.Mount(r, s.DB, resource.Def[v2.HPAResource]{
		Kind: "HpaResourceRequirement", Orphan: "HpaResourceConsumer not found",
		Collection: requirements, Item: "{hpaResource}", Put: resource.PutOK, Clear: true,
		Queries: []resource.Query{{Param: "resource", Answer: s.named("resource")}},
	})
}

// named returns what "?param=NAME" answers: a list with the document of that name, or without any. Upstream EMCO answers such a
// query with the whole list, because another route takes it, so clients expect a list.
func (s Resources) named(param string) func(ctx context.Context, at resource.Place, values url.Values) ([]byte, error) {
	return func(ctx context.Context, at resource.Place, values url.Values) ([]byte, error) {
		name := values.Get(param)
		if err := v2.CheckName("query "+param, name); err != nil {
			return nil, err
		}
		if _, err := s.DB.Get(ctx, at.Parent); err != nil {
			return nil, err
		}
		doc, err := s.DB.Get(ctx, at.Collection+"/"+store.Key(name))
		if errs.Is(err, errs.NotFound) {
			return []byte("[]"), nil
		}
		return slices.Concat([]byte("["), doc.Body, []byte("]")), err
	}
}
