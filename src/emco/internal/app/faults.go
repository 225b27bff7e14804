package app

import (
	"net/http"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint/wrap"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/git"
)

// WithFailpoints makes the program fail at the points that s arms, and serves s on
// /failpoints. It is for tests: the released program has no failpoints.
func WithFailpoints(s *failpoint.Set) Option { return func(a *App) { a.faults.set = s } }

// failpointWraps puts failpoints around the parts of the program, or nothing where there are none.
type failpointWraps struct{ set *failpoint.Set }

// routes adds /failpoints, and returns the API with its points.
func (f failpointWraps) routes(mux *http.ServeMux, api http.Handler) http.Handler {
	if f.set == nil {
		return api
	}
	mux.Handle("/failpoints", f.set)
	return wrap.API(f.set, api)
}

func (f failpointWraps) documents(d store.Driver) store.Driver {
	if f.set == nil {
		return d
	}
	return wrap.Documents(f.set, d)
}

func (f failpointWraps) etcd(c config.Etcd, client *clientv3.Client) {
	if f.set != nil {
		client.KV = wrap.KV(f.set, c.Prefix, client.KV)
	}
}

func (f failpointWraps) renderer(r render.Renderer) render.Renderer {
	if f.set == nil {
		return r
	}
	return wrap.Renderer(f.set, r)
}

func (f failpointWraps) host(h git.Host) git.Host {
	if f.set == nil {
		return h
	}
	return wrap.Host(f.set, h)
}

func (f failpointWraps) commits(w wrap.Writer) wrap.Writer {
	if f.set == nil {
		return w
	}
	return wrap.Commits(f.set, w)
}

// kube returns a function that wraps the transport to clusters; nil without failpoints.
func (f failpointWraps) kube() func(http.RoundTripper) http.RoundTripper {
	if f.set == nil {
		return nil
	}
	return func(next http.RoundTripper) http.RoundTripper { return wrap.Kube(f.set, next) }
}
