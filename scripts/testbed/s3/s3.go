// Package s3 runs a Versity S3 Gateway: a real S3 server over a folder, on a free port of
// 127.0.0.1.
package s3

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/serve"
)

// Options place a server.
type Options = serve.Options

// Server is a running server, without TLS. Its one key pair has all rights.
type Server struct {
	*serve.Server
	AccessKey, SecretKey string
}

// Folders of the server.
const (
	data = "data"
	meta = "meta"
)

// Start builds the gateway if the cache lacks it, and starts one without buckets. The caller stops it.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{AccessKey: rand.Text(), SecretKey: rand.Text()}
	var err error
	s.Server, err = serve.Start(ctx, serve.Spec{
		Part: "versitygw", Options: o, Folders: []string{data, meta},
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

// CreateBucket creates an empty bucket: for the gateway, a folder is a bucket.
func (s *Server) CreateBucket(name string) error {
	return os.Mkdir(filepath.Join(s.Path(data), name), 0o700)
}
