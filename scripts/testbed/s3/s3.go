// Package s3 runs a Versity S3 Gateway: a real S3 server over a folder, on a free port of
// 127.0.0.1.
package s3

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/serve"
)

// Options say where to run.
type Options struct {
	Dir      string    // takes objects and the log; made when missing, to be empty
	Progress io.Writer // takes one line per step; nil drops them
}

// Server is a running server. Its one key pair may do everything.
type Server struct {
	AccessKey, SecretKey string

	server *serve.Server
}

// Folders of the server.
const (
	data = "data"
	meta = "meta"
)

// Start builds the gateway if the cache lacks it, and starts one without buckets. The
// caller stops it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{AccessKey: rand.Text(), SecretKey: rand.Text()}
	var err error
	s.server, err = serve.Start(ctx, serve.Spec{
		Part: "versitygw", Dir: o.Dir, Progress: o.Progress, Folders: []string{data, meta},
		Env: []string{"ROOT_ACCESS_KEY_ID=" + s.AccessKey, "ROOT_SECRET_ACCESS_KEY=" + s.SecretKey},
		Args: func(dir, address string) []string {
			return []string{"--port", address, "--quiet", "--health", "/health", "posix", "--sidecar", filepath.Join(dir, meta), filepath.Join(dir, data)}
		},
		Health: serve.Health{Path: "/health", Status: http.StatusOK},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Stop ends the server. A second call does nothing.
func (s *Server) Stop() { s.server.Stop() }

// Address returns host and port. There is no TLS.
func (s *Server) Address() string { return s.server.Address() }

// CreateBucket makes an empty bucket: to the gateway, a folder is one.
func (s *Server) CreateBucket(name string) error {
	return os.Mkdir(filepath.Join(s.server.Path(data), name), 0o700)
}
