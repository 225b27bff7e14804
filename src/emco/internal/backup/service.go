package backup

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
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/durable"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Service hands out backups over a socket in the data folder, which only its owner reaches: a backup
// holds all that was rendered, in clear.
type Service struct {
	Source Source
	Path   string // of the socket
	Log    *slog.Logger
}

// Name returns the name of the service.
func (s *Service) Name() string { return "backup" }

// Ready returns nil: without backups everything else works.
func (s *Service) Ready() error { return nil }

// Run serves until ctx ends. Without a socket there are no online backups, and everything else works.
func (s *Service) Run(ctx context.Context) error {
	path, done, err := reachable(s.Path)
	if err == nil {
		defer done()
		_ = os.Remove(path) // a killed process left it; etcd's lock keeps a second process away
	}
	var l net.Listener
	if err == nil {
		l, err = net.Listen("unix", path)
	}
	if err == nil {
		err = errors.Join(os.Chmod(path, 0o600))
	}
	if err != nil {
		s.Log.Warn("emco backup cannot reach this process", "socket", s.Path, "err", err)
		<-ctx.Done()
		return nil
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.Source.Write(r.Context(), w); err != nil {
			s.Log.Error("a backup failed", "err", err)
			panic(http.ErrAbortHandler) // the client sees that the file is not complete
		}
	})
	server := web.Server{Log: s.Log, Handler: handler, Limits: web.Limits{Header: time.Second, Drain: time.Second}}
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

// Fetch asks the process that serves a socket for a backup, and writes it to a new file. The file is there
// only if the backup is complete.
func Fetch(ctx context.Context, socket, to string) (m Manifest, err error) {
	path, done, err := reachable(socket)
	if err != nil {
		return m, err
	}
	defer done()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://emco/", nil)
	if err != nil {
		return m, err
	}
	res, err := client.Do(r)
	if err != nil {
		return m, fmt.Errorf("no process with embedded stores answers in %s: start emco, or copy the folder while it is stopped; back up external stores with their own tools (%w)", filepath.Dir(socket), err)
	}
	defer res.Body.Close()
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s exists already", to)
	}
	part := to + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return m, err
	}
	defer os.Remove(part)
	_, err = io.Copy(f, res.Body)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return m, fmt.Errorf("the backup broke off; the log of emco says why: %w", err)
	}
	if m, err = unpack(part, func(string, io.Reader) error { return nil }); err != nil {
		return m, err
	}
	if err := os.Rename(part, to); err != nil {
		return m, err
	}
	return m, durable.SyncDir(filepath.Dir(to))
}
