// Package ownresource owns the documents of the types that referential schemas register. It keeps them for controllers
// that are no part of EMCO, which read them by REST, and never reads them itself.
package ownresource

import (
	"context"
	"strings"

	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/refschema"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Resources are the documents of registered types.
type Resources struct {
	DB    *store.DB
	Types []refschema.Type
}

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	for _, t := range s.Types {
		resource.Mount(r, s.DB, resource.Def[v2.OwnResource]{
			Kind: t.Kind(), Orphan: t.ParentKind() + " not found",
			Collection: t.Collection(), Item: t.Item(), Type: permissionType(t), Put: resource.PutUpsert,
			Check: func(_ context.Context, at resource.Place, doc v2.OwnResource) error {
				return t.Check(doc.Spec, at.Vars)
			},
			Refs: func(at resource.Place, doc v2.OwnResource) []store.Ref { return references(t, at, doc) },
		})
	}
}

// permissionType is what roles call the documents of a type.
func permissionType(t refschema.Type) string {
	family := authz.OwnInProviders
	if strings.HasPrefix(t.Path, "projects/") {
		family = authz.OwnInProjects
	}
	collection := t.Collection()
	return authz.Member(family, collection[strings.LastIndexByte(collection, '/')+1:])
}

// references returns what a document, which Check has admitted, refers to.
func references(t refschema.Type, at resource.Place, doc v2.OwnResource) (out []store.Ref) {
	keys, err := t.References(doc.Spec, at.Vars)
	if err != nil {
		return nil
	}
	for _, key := range keys {
		out = append(out, store.Ref{Key: store.Key(key)})
	}
	return out
}
