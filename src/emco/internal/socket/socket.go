// Package socket serves commands of the operator over a Unix socket in the data folder, which only the owner
// of the folder reaches.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/fileowner"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Service serves the handler at a path.
type Service struct {
	Path    string
	Handler http.Handler
	Log     *slog.Logger
}

// Name returns the name of the service.
func (s *Service) Name() string { return "socket" }

// Ready returns nil: without the socket everything else works.
func (s *Service) Ready() error { return nil }

// Run serves until ctx ends. Without a socket the commands do not reach the process, and everything else works.
func (s *Service) Run(ctx context.Context) error {
	path, done, err := reachable(s.Path)
	if err == nil {
		defer done()
		_ = os.Remove(path) // a killed process left it
	}
	var l net.Listener
	if err == nil {
		l, err = net.Listen("unix", path)
	}
	if err == nil {
		err = errors.Join(os.Chmod(path, 0o600))
	}
	if err != nil {
		s.Log.Warn("emco backup, emco keys and emco level cannot reach this process", "socket", s.Path, "err", err)
		<-ctx.Done()
		return nil
	}
	server := web.Server{Log: s.Log, Handler: s.Handler, Limits: web.Limits{Header: time.Second, Drain: time.Second}}
	return server.Serve(ctx, l)
}

// longestSocket is the longest path of a socket in Linux.
const longestSocket = 107

// reachable returns a path of a socket that the kernel takes, until done is called. A longer one is replaced
// by a path through the open folder.
func reachable(path string) (short string, done func(), err error) {
	if len(path) <= longestSocket {
		return path, func() {}, nil
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(path)), func() { _ = folder.Close() }, nil
}

// Ask sends a request without a body to the process that serves a socket. The caller must close the body of
// the response. The error is fs.ErrPermission if this user may not use the socket.
func Ask(ctx context.Context, path, method, target string) (*http.Response, error) {
	path, done, err := reachable(path)
	if err != nil {
		return nil, err
	}
	defer done()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	r, err := http.NewRequestWithContext(ctx, method, "http://emco"+target, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(r)
	if err != nil {
		return nil, fileowner.Explain(err, path)
	}
	return res, nil
}

// maxAnswer is the longest answer that Read takes, in bytes.
const maxAnswer = 1 << 20

// Read sends a request to the process that serves a socket and returns its answer, or its refusal as an error.
func Read(ctx context.Context, path, method, target string) ([]byte, error) {
	res, err := Ask(ctx, path, method, target)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("this user may not ask the emco of that data folder: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("no emco answers at %s: start it, or name its data folder with -data (%w)", path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(text)))
	}
	return text, err
}
