// Package opa runs the server of Open Policy Agent, on a free port of 127.0.0.1.
package opa

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/serve"
)

// Options place a server.
type Options = serve.Options

// Server is a running server, without TLS and without users.
type Server struct{ *serve.Server }

// Start builds the server if the cache lacks it, and starts one without policies. The caller stops it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := serve.Start(ctx, serve.Spec{
		Part: "opa", Options: o,
		Args:   func(_, address string) []string { return []string{address} },
		Health: serve.Health{Path: "/health", Status: http.StatusOK},
	})
	return &Server{s}, err
}

// URL returns where the server answers.
func (s *Server) URL() string { return "http://" + s.Address() }

// Put adds or replaces a policy in Rego.
func (s *Server) Put(ctx context.Context, name, rego string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL()+"/v1/policies/"+name, strings.NewReader(rego))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/plain")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return fmt.Errorf("put policy %s: %s: %s", name, resp.Status, said)
	}
	return nil
}
