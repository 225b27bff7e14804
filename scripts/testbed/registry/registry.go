// Package registry runs the registry of the CNCF distribution, on a free port of 127.0.0.1.
package registry

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/serve"
)

// Options say where to run.
type Options struct {
	Dir      string    // takes blobs and the log; made when missing, to be empty
	Progress io.Writer // takes one line per step; nil drops them
}

// Server is a running registry. Its one user may do everything, others nothing.
type Server struct {
	User, Password string

	server *serve.Server
}

// Start builds the registry if the cache lacks it, and starts an empty one. The caller stops it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{User: "keeper", Password: rand.Text()}
	var err error
	s.server, err = serve.Start(ctx, serve.Spec{
		Part: "registry", Dir: o.Dir, Progress: o.Progress,
		Env:    []string{"REGISTRY_USER=" + s.User, "REGISTRY_PASSWORD=" + s.Password},
		Args:   func(dir, address string) []string { return []string{address, dir} },
		Health: serve.Health{Path: "/v2/", Status: http.StatusUnauthorized},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Stop ends the registry. A second call does nothing.
func (s *Server) Stop() { s.server.Stop() }

// Address returns host and port. There is no TLS.
func (s *Server) Address() string { return s.server.Address() }
