// Package ferretdb runs a FerretDB: a server that speaks MongoDB's protocol, on a free port of 127.0.0.1.
// It is a single server, without replica sets and transactions, and lets one message at a time through.
package ferretdb

import (
	"context"
	"net/http"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/serve"
)

// Options place a server.
type Options = serve.Options

// Server is a running server, without TLS and users.
type Server struct {
	*serve.Server
}

// Start builds FerretDB if the cache lacks it, and starts an empty one. The caller stops it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := serve.Start(ctx, serve.Spec{
		Part: "ferretdb", Options: o,
		Args:   func(dir, address string) []string { return []string{address, dir} },
		Health: serve.Health{Path: "/healthz", Status: http.StatusOK},
	})
	if err != nil {
		return nil, err
	}
	return &Server{s}, nil
}

// URI returns the address for clients.
func (s *Server) URI() string { return "mongodb://" + s.Address() + "/" }
