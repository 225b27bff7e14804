// Package s3 runs a Versity S3 Gateway: a real S3 server over a folder, on a free port of
// 127.0.0.1.
package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/build"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// startTimeout bounds the time from an empty folder to a server that answers.
const startTimeout = time.Minute

// Options say where to run.
type Options struct {
	Dir      string    // takes objects and the log; made when missing, to be empty
	Progress io.Writer // takes one line per step; nil drops them
}

// Server is a running server. Its one key pair may do everything.
type Server struct {
	AccessKey, SecretKey string

	dir, part, address string
	process            *process.Process
}

// Start builds the gateway if the cache lacks it, and starts one without buckets. The
// caller stops it.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("an S3 server needs a folder: set Dir")
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	builder, err := build.New(o.Progress)
	if err != nil {
		return nil, err
	}
	part, err := builder.Build(ctx, "versitygw")
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{AccessKey: rand.Text(), SecretKey: rand.Text(), dir: dir, part: part}
	for _, sub := range []string{s.data(), s.meta()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := process.Retry(func() error { return s.run(ctx) }); err != nil {
		return nil, err
	}
	fmt.Fprintf(o.Progress, "testbed: s3: ready at %s\n", s.address)
	return s, nil
}

// Stop ends the server. A second call does nothing.
func (s *Server) Stop() { s.process.Stop() }

// Address returns host and port. There is no TLS.
func (s *Server) Address() string { return s.address }

// CreateBucket makes an empty bucket: to the gateway, a folder is one.
func (s *Server) CreateBucket(name string) error {
	return os.Mkdir(filepath.Join(s.data(), name), 0o700)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }
func (s *Server) meta() string { return filepath.Join(s.dir, "meta") }

// run starts the server on a port that nobody listens on now.
func (s *Server) run(ctx context.Context) error {
	ports, err := port.Pick(1)
	if err != nil {
		return err
	}
	s.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	p, err := process.Start(process.Spec{
		Name: "versitygw", Path: filepath.Join(s.part, "versitygw"), Dir: s.dir,
		Env:  []string{"ROOT_ACCESS_KEY_ID=" + s.AccessKey, "ROOT_SECRET_ACCESS_KEY=" + s.SecretKey},
		Args: []string{"--port", s.address, "--quiet", "--health", "/health", "posix", "--sidecar", s.meta(), s.data()},
	})
	if err != nil {
		return err
	}
	s.process = p
	if err := p.Ready(ctx, s.healthy); err != nil {
		p.Stop()
		return err
	}
	return nil
}

func (s *Server) healthy(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/health", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the S3 server answers %s", res.Status)
	}
	return nil
}
