package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/emco-orchestrator/emco/src/emco/internal/durable"
	"github.com/emco-orchestrator/emco/src/emco/internal/socket"
)

// Target is the path of backups at the socket.
const Target = "/backup"

// Handler hands out backups.
func Handler(s Source, log *slog.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.Write(r.Context(), w); err != nil {
			log.Error("a backup failed", "err", err)
			panic(http.ErrAbortHandler) // the client sees that the file is not complete
		}
	}
}

// Fetch asks the process that serves the socket at path for a backup, and writes it to a new file. The file is there
// only if the backup is complete.
func Fetch(ctx context.Context, path, to string) (m Manifest, err error) {
	res, err := socket.Ask(ctx, path, http.MethodGet, Target)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.Join(errors.New(res.Status), res.Body.Close())
	}
	if errors.Is(err, fs.ErrPermission) {
		return m, fmt.Errorf("this user may not ask the emco of that data folder: %w", err)
	}
	if err != nil {
		return m, fmt.Errorf("no process with embedded stores answers in %s: start emco, or copy the folder while it is stopped; back up external stores with their own tools (%w)", filepath.Dir(path), err)
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
