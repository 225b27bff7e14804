package resource

import (
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Mount adds the routes of a resource: POST and GET of the collection, GET, PUT and
// DELETE of an item. Paths begin with /v2.
func Mount[T any, P document[T]](r *mux.Router, db *store.DB, def Def[T]) {
	h := &handler[T, P]{db: db, def: def}
	collection := "/v2/" + def.Collection
	item := collection + "/" + def.Item
	route := func(method, template, verb string, f web.HandlerFunc) {
		need := authz.Permission{Verb: verb, Type: h.typ(), Confined: verb == authz.List && def.Scope != nil}
		web.Route(r, method, template, endpoint{f, def.describe, need})
	}
	route(http.MethodPost, collection, authz.Create, h.orDryRun((*handler[T, P]).create, "dryRun", "strict"))
	route(http.MethodGet, collection, authz.List, h.list)
	route(http.MethodGet, item, authz.Get, h.get)
	route(http.MethodDelete, item, authz.Delete, h.orDryRun((*handler[T, P]).remove, "dryRun"))
	if def.Clear {
		route(http.MethodDelete, collection, authz.Delete, h.orDryRun((*handler[T, P]).clear, "dryRun"))
	}
	if def.AtItem {
		route(http.MethodPost, item, authz.Create, h.orDryRun((*handler[T, P]).create, "dryRun", "strict"))
	}
	if def.Put != NoPut {
		route(http.MethodPut, item, authz.Update, h.orDryRun((*handler[T, P]).replace, "dryRun", "strict"))
	}
	if h.def.queried(false) {
		// Upstream's own CLI and documents have a slash before the question mark.
		route(http.MethodGet, collection+"/", authz.List, h.slashed)
	}
}

// handler serves one resource.
type handler[T any, P document[T]] struct {
	db  *store.DB
	def Def[T]
	dry bool // nothing is written; db is a trial
}

// place returns what the request's URL means.
func (d *Def[T]) place(r *http.Request) (Place, error) {
	vars, err := web.Vars(r)
	if err != nil {
		return Place{}, err
	}
	coll := expand(d.Collection, vars)
	at := Place{Key: store.Key(coll), Collection: store.Key(coll), Vars: vars}
	if parent := strings.LastIndexByte(coll, '/'); parent >= 0 && d.Orphan != "" {
		at.Parent = at.Collection[:parent]
	}
	return at, nil
}

// item returns the place of the item that the URL names, and the name.
func (d *Def[T]) item(r *http.Request) (Place, string, error) {
	at, err := d.place(r)
	name := expand(d.Item, at.Vars)
	return at.with(name), name, err
}

// with returns the place of a document of that name.
func (p Place) with(name string) Place {
	p.Key = p.Collection + "/" + store.Key(name)
	return p
}

// expand puts names into a path template.
func expand(template string, vars map[string]string) string {
	segments := strings.Split(template, "/")
	for i, s := range segments {
		if name, ok := strings.CutPrefix(s, "{"); ok {
			segments[i] = vars[strings.TrimSuffix(name, "}")]
		}
	}
	return strings.Join(segments, "/")
}

// typ is what permissions call the documents.
func (h *handler[T, P]) typ() string {
	if h.def.Type != "" {
		return h.def.Type
	}
	return h.def.Collection[strings.LastIndexByte(h.def.Collection, '/')+1:]
}

// depth is the number of segments of an item's name.
func (d *Def[T]) depth() int { return 1 + strings.Count(d.Item, "/") }

// queried reports whether there are queries on items, or on the collection.
func (d *Def[T]) queried(onItem bool) bool {
	for _, q := range d.Queries {
		if q.OnItem == onItem {
			return true
		}
	}
	return false
}
