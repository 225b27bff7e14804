package placementintent

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Resources are the documents that placementintent serves.
type Resources struct {
	DB *store.DB
}

const (
	placementIntents = web.GroupPath + "/generic-placement-intents"
)

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.PlacementIntent]{
		Kind: "GenericPlacementIntent", Orphan: "DeploymentIntentGroup not found",
		Collection: placementIntents, Item: "{genericPlacementIntent}", Put: resource.PutUpsert,
	})
	resource.Mount(r, s.DB, resource.Def[v2.AppIntent]{
		Kind: "AppIntent", Missing: "Intent not found", Orphan: "GenericPlacementIntent not found",
		Collection: placementIntents + "/{genericPlacementIntent}/app-intents", Item: "{genericAppPlacementIntent}", Put: resource.PutUpsert,
		Refs: refs,
		Unique: func(_ resource.Place, i v2.AppIntent) resource.UniqueKey {
			return resource.UniqueKey{Name: i.Spec.App, Taken: "App already has an AppIntent"}
		},
		Queries: []resource.Query{{Param: "app", Answer: s.specOf}},
	})
}

// refs are the app and every cluster that is named; labels refer to nothing. What
// does not exist yet is accepted, as in upstream EMCO.
func refs(at resource.Place, i v2.AppIntent) []store.Ref {
	app := v2.AppKey{CompositeApp: web.CompositeApp(at.Vars), Name: i.Spec.App}
	all := []store.Ref{{Key: store.Key(app.StoreKey())}}
	for _, s := range i.Spec.Intent.Selectors() {
		if s.Cluster != "" {
			key := v2.NewClusterKey(s.Provider, s.Cluster)
			all = append(all, store.Ref{Key: store.Key(key.StoreKey())})
		}
	}
	return all
}

// specOf answers ?app=A with the spec of the app's intent.
func (s Resources) specOf(ctx context.Context, at resource.Place, values url.Values) ([]byte, error) {
	app := values.Get("app")
	if err := v2.CheckName("app", app); err != nil {
		return nil, err
	}
	doc, err := resource.Holder(ctx, s.DB, at, app)
	if errs.Is(err, errs.NotFound) {
		return nil, errs.New(errs.NotFound, "Intent not found")
	}
	if err != nil {
		return nil, err
	}
	i, err := store.Decode[v2.AppIntent](doc)
	if err != nil {
		return nil, err
	}
	return json.Marshal(i.Spec)
}
