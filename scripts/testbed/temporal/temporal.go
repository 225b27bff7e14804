// Package temporal runs a Temporal server with the namespace "default", on a free port of 127.0.0.1.
package temporal

import (
	"context"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/serve"
)

// Options place a server.
type Options = serve.Options

// Server is a running server, without TLS and users. Address is that of its frontend. It keeps workflows over Restart.
type Server struct {
	*serve.Server
}

// Start builds Temporal if the cache lacks it, and starts an empty server. The caller stops it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := serve.Start(ctx, serve.Spec{
		Part: "temporal", Options: o,
		Args:   func(dir, address string) []string { return []string{address, dir} },
		Health: serve.Health{Service: "temporal.api.workflowservice.v1.WorkflowService"},
	})
	if err != nil {
		return nil, err
	}
	return &Server{s}, nil
}
