package openapi

import (
	"net/http"
	"sync"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// The paths of the description of the API.
const (
	documentPath = "/openapi.json"
	pagePath     = "/reference"
)

// Pages are the description of the API: a document for programs, and a page for people.
type Pages struct {
	read func() (texts, error)
}

// texts are the two forms.
type texts struct{ document, page []byte }

// PagesOf returns the description of the routes of a router. The first request makes it: most programs are never asked.
func PagesOf(router *mux.Router, version string) Pages {
	return Pages{sync.OnceValues(func() (out texts, err error) {
		d, err := Of(router, version)
		if err != nil {
			return out, err
		}
		if out.document, err = d.JSON(); err != nil {
			return out, err
		}
		out.page, err = d.Page()
		return out, err
	})}
}

// Mount serves the description.
func (p Pages) Mount(mux *http.ServeMux) {
	mux.Handle("GET "+documentPath, web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		d, err := p.read()
		if err != nil {
			return err
		}
		return web.Conditional(w, r, d.document)
	}))
	mux.Handle("GET "+pagePath, web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		d, err := p.read()
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
