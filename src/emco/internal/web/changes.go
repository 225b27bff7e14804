package web

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
)

// effect is what a route does to the stores.
type effect uint8

const (
	reads effect = iota
	frees        // takes something away, or must be answered also while there is no space
	keeps        // creates or changes something
)

// declaredEffect is a handler that declares its effect, where the method does not imply it.
type declaredEffect struct {
	permittedHandler
	effect effect
}

// HandleStoring is Handle for a route that stores something though its method is one of reads.
func HandleStoring(r *mux.Router, method, template string, need authz.Permission, h HandlerFunc) {
	Route(r, method, template, declaredEffect{permittedHandler{h, need}, keeps})
}

// HandleFreeing is Handle for a route that must answer also while there is no space: it takes something away, or tells
// its callers when to retry.
func HandleFreeing(r *mux.Router, method, template string, need authz.Permission, h HandlerFunc) {
	Route(r, method, template, declaredEffect{permittedHandler{h, need}, frees})
}

// HandleReading is Handle for a route that changes nothing though its method is one of changes, such as a question that is
// too long for a path.
func HandleReading(r *mux.Router, method, template string, need authz.Permission, h HandlerFunc) {
	Route(r, method, template, declaredEffect{permittedHandler{h, need}, reads})
}

// effectOf returns what a request does to the stores.
func effectOf(r *http.Request) effect {
	if d, ok := mux.CurrentRoute(r).GetHandler().(declaredEffect); ok {
		return d.effect
	}
	switch {
	case r.Method == http.MethodGet, r.Method == http.MethodHead, IsDryRun(r):
		return reads
	case r.Method == http.MethodDelete:
		return frees
	}
	return keeps
}

// stores reports whether a request creates or changes something. Deletions do not.
func stores(r *http.Request) bool { return effectOf(r) == keeps }

// changes reports whether a request may change anything, also by a deletion.
func changes(r *http.Request) bool { return effectOf(r) != reads }

// RefuseStoring is middleware of the router: it answers requests that create or change something with the error of
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
