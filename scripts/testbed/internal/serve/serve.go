// Package serve runs one server of a built part on a free port of 127.0.0.1, without a bed.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/build"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/probe"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// startTimeout limits the time from an empty folder to an answering server, without the build before
// it.
const startTimeout = 3 * time.Minute

// Options place a server.
type Options struct {
	Dir      string    // contains all files of the server; created if missing, must be empty
	Progress io.Writer // receives one line per step; nil drops them
}

// Spec describes a server.
type Spec struct {
	Options
	Part    string                             // of the test bed; its program has the same name
	Folders []string                           // created in Dir before the start
	Env     []string                           // in addition to this process's environment
	Args    func(dir, address string) []string // of the program
	Health  Health
}

// Health is a path, and the status of a ready server there; or a service of a server that speaks gRPC.
type Health struct {
	Path    string
	Status  int
	Service string
}

// Server is a running server.
type Server struct {
	spec    Spec
	program string
	address string
	process *process.Process
}

// Start builds the part if the cache lacks it, and returns when the server is ready. The
// caller stops it.
func Start(ctx context.Context, spec Spec) (*Server, error) {
	if spec.Dir == "" {
		return nil, errors.New(spec.Part + " needs a folder: set Dir")
	}
	if spec.Progress == nil {
		spec.Progress = io.Discard
	}
	builder, err := build.New(spec.Progress)
	if err != nil {
		return nil, err
	}
	part, err := builder.Build(ctx, spec.Part)
	if err != nil {
		return nil, err
	}
	s := &Server{spec: spec, program: filepath.Join(part, spec.Part)}
	if err := s.furnish(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := process.Retry(func() error { return s.run(ctx) }); err != nil {
		return nil, err
	}
	fmt.Fprintf(spec.Progress, "testbed: %s: ready at %s\n", spec.Part, s.address)
	return s, nil
}

// Stop ends the server. A second call does nothing.
func (s *Server) Stop() { s.process.Stop() }

// Restart stops the server and starts it again, with its folder and at its address.
func (s *Server) Restart(ctx context.Context) error {
	s.Stop()
	return s.runAt(ctx, s.address)
}

// Address returns host and port.
func (s *Server) Address() string { return s.address }

// Path returns the path of a folder of the spec.
func (s *Server) Path(folder string) string { return filepath.Join(s.spec.Dir, folder) }

// furnish creates the folders.
func (s *Server) furnish() (err error) {
	if s.spec.Dir, err = filepath.Abs(s.spec.Dir); err != nil {
		return err
	}
	for _, sub := range append([]string{""}, s.spec.Folders...) {
		if err := os.MkdirAll(s.Path(sub), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// run starts the server on a free port.
func (s *Server) run(ctx context.Context) error {
	ports, err := port.Pick(1)
	if err != nil {
		return err
	}
	return s.runAt(ctx, port.Address(ports[0]))
}

func (s *Server) runAt(ctx context.Context, address string) (err error) {
	s.address = address
	s.process, err = process.Start(process.Spec{
		Name: s.spec.Part, Path: s.program, Dir: s.spec.Dir, Env: s.spec.Env, Args: s.spec.Args(s.spec.Dir, s.address),
	})
	if err != nil {
		return err
	}
	if err := s.process.Ready(ctx, s.healthy); err != nil {
		s.process.Stop()
		return err
	}
	return nil
}

func (s *Server) healthy(ctx context.Context) error {
	if s.spec.Health.Service != "" {
		return probe.GRPC(ctx, s.address, s.spec.Health.Service)
	}
	return probe.HTTP(ctx, "http://"+s.address+s.spec.Health.Path, s.spec.Health.Status)
}
