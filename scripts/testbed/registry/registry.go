// Package registry runs the registry of the CNCF distribution, on a free port of 127.0.0.1.
package registry

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/serve"
)

// Options place a registry.
type Options = serve.Options

// Server is a running registry, without TLS. Its one user has all rights, others none.
type Server struct {
	*serve.Server
	User, Password string
}

// Start builds the registry if the cache lacks it, and starts an empty one. The caller stops it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{User: "keeper", Password: rand.Text()}
	var err error
	s.Server, err = serve.Start(ctx, serve.Spec{
		Part: "registry", Options: o,
		Env:    []string{"REGISTRY_USER=" + s.User, "REGISTRY_PASSWORD=" + s.Password},
		Args:   func(dir, address string) []string { return []string{address, dir} },
		Health: serve.Health{Path: "/v2/", Status: http.StatusUnauthorized},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}
