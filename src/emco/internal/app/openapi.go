package app

import (
	"net/http"
	"sync"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emco/internal/openapi"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// The paths of the description of the API.
const (
	openapiPath   = "/openapi.json"
	referencePath = "/reference"
)

// apiDescription is the description of the routes, for programs and for people.
type apiDescription struct{ document, page []byte }

// describe describes the routes of a router, at the first request: most programs
// are never asked.
func describe(r *mux.Router) func() (apiDescription, error) {
	return sync.OnceValues(func() (out apiDescription, err error) {
		d, err := openapi.Of(r, version.Read().Version)
		if err != nil {
			return out, err
		}
		if out.document, err = d.JSON(); err != nil {
			return out, err
		}
		out.page, err = d.Page()
		return out, err
	})
}

// mountDescription serves what describe returned.
func mountDescription(mux *http.ServeMux, describe func() (apiDescription, error)) {
	mux.Handle("GET "+openapiPath, web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		d, err := describe()
		if err != nil {
			return err
		}
		return web.Conditional(w, r, d.document)
	}))
	mux.Handle("GET "+referencePath, web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		d, err := describe()
		if err != nil {
			return err
		}
		if web.Unchanged(w, r, web.TagOf(d.page)) {
			return nil
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, err = w.Write(d.page)
		return err
	}))
}
