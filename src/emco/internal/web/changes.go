package web

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
)

// effect is a handler that declares whether its route stores something, where the method does not say it.
type effect struct {
	declared
	stores bool
}

// HandleStoring is Handle for a route that stores something though its method is one of reads.
func HandleStoring(r *mux.Router, method, template string, need authz.Permission, h HandlerFunc) {
	Route(r, method, template, effect{declared{h, need}, true})
}

// HandleFreeing is Handle for a route that must answer also while there is no space: it takes something away, or tells
// its callers when to come back.
func HandleFreeing(r *mux.Router, method, template string, need authz.Permission, h HandlerFunc) {
	Route(r, method, template, effect{declared{h, need}, false})
}

// stores reports whether the route of a request creates or changes something. Deletions do not.
func stores(r *http.Request) bool {
	if e, ok := mux.CurrentRoute(r).GetHandler().(effect); ok {
		return e.stores
	}
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodDelete
}

// changes reports whether the route of a request may change anything, also by a deletion.
func changes(r *http.Request) bool {
	return stores(r) || r.Method != http.MethodGet && r.Method != http.MethodHead
}

// RefuseStoring is middleware of the router: it answers requests whose routes create or change something with the error of
// refuse, if there is one. Others, such as deletions, may make space.
func RefuseStoring(refuse func() error) mux.MiddlewareFunc { return refusing(stores, refuse) }

// RefuseChanges is RefuseStoring for all requests but reads.
func RefuseChanges(refuse func() error) mux.MiddlewareFunc { return refusing(changes, refuse) }

func refusing(concerns func(*http.Request) bool, refuse func() error) mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			if concerns(r) {
				if err := refuse(); err != nil {
					return err
				}
			}
			next.ServeHTTP(w, r)
			return nil
		})
	}
}
