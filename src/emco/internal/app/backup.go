package app

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/durable"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/run"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/transfer"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// The entries of a backup, a tar file. The manifest is the last one, so a file that was cut off has none.
const (
	backupFormat    = 1
	backupEtcd      = "etcd.db"         // a snapshot of etcd, with its checksum
	backupDocuments = "documents.jsonl" // without it the documents are in etcd
	backupContent   = "content/"        // packages, by digest
	backupManifest  = "manifest.json"
)

// manifestOfBackup says what a backup holds.
type manifestOfBackup struct {
	Format    int               `json:"format"`
	Program   string            `json:"program"` // the version that wrote it
	Time      time.Time         `json:"time"`
	Driver    string            `json:"driver"` // of documents
	Documents int               `json:"documents"`
	Missing   []manifest.Digest `json:"missing,omitempty"` // packages that documents name, and the store did not have
	Sums      map[string]string `json:"sums"`              // SHA-256 of the other entries
}

// backupSource is the embedded stores of a running process.
type backupSource struct {
	etcd      *embedded.Server
	documents store.Driver
	blobs     store.Blobs
	driver    string
	folder    string // for temporary files
}

// write writes a backup while the process goes on. etcd comes first: a document without a deployment does no
// harm, a deployment without a document would.
func (b backupSource) write(ctx context.Context, w io.Writer) error {
	out := backupWriter{tar: tar.NewWriter(w), m: manifestOfBackup{
		Format: backupFormat, Program: version.Read().Version, Time: time.Now().UTC(), Driver: b.driver, Sums: map[string]string{},
	}}
	err := b.spooled(&out, backupEtcd, func(w io.Writer) error { return b.etcd.Snapshot(ctx, w) })
	if err != nil {
		return err
	}
	named := transfer.Contents{}
	if b.driver == sqliteDriver {
		err := b.spooled(&out, backupDocuments, func(w io.Writer) (err error) {
			out.m.Documents, named, err = transfer.Write(ctx, b.documents, w)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, digest := range slices.Sorted(maps.Keys(named)) {
		r, err := b.blobs.Open(ctx, digest)
		if errs.Is(err, errs.NotFound) {
			out.m.Missing = append(out.m.Missing, digest)
			continue
		}
		if err != nil {
			return err
		}
		err = out.add(backupContent+string(digest), named[digest], r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return out.finish()
}

// spooled adds an entry whose size is not known before it is written.
func (b backupSource) spooled(out *backupWriter, name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(b.folder, ".backup-")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	if err := write(f); err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	return out.add(name, size, f)
}

// backupWriter writes the entries of a backup.
type backupWriter struct {
	tar *tar.Writer
	m   manifestOfBackup
}

func (b *backupWriter) add(name string, size int64, r io.Reader) error {
	if err := b.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: b.m.Time}); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(b.tar, sum), r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.m.Sums[name] = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// finish adds the manifest.
func (b *backupWriter) finish() error {
	text, err := json.MarshalIndent(b.m, "", "  ")
	if err != nil {
		return err
	}
	err = b.tar.WriteHeader(&tar.Header{Name: backupManifest, Mode: 0o600, Size: int64(len(text)), ModTime: b.m.Time})
	if err == nil {
		_, err = b.tar.Write(text)
	}
	return errors.Join(err, b.tar.Close())
}

// backupService hands out backups over a socket in the data folder, which only its owner reaches: a backup
// holds all that was rendered, in clear.
type backupService struct {
	source backupSource
	path   string
	log    *slog.Logger
}

// backups returns the service for backups; none without an embedded etcd, or with documents elsewhere.
func (a *App) backups(c config.Config, st openStores) []run.Service {
	if st.embedded == nil || st.source.driver == mongoDriver {
		return nil
	}
	return []run.Service{&backupService{source: st.source, path: backupSocket(c), log: a.log}}
}

func backupSocket(c config.Config) string { return c.Path("backup.sock") }

func (s *backupService) Name() string { return "backup" }
func (s *backupService) Ready() error { return nil }

// Run serves until ctx ends. Without a socket there are no online backups, and everything else works.
func (s *backupService) Run(ctx context.Context) error {
	path, done, err := reachable(s.path)
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
		s.log.Warn("emco backup cannot reach this process", "socket", s.path, "err", err)
		<-ctx.Done()
		return nil
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.source.write(r.Context(), w); err != nil {
			s.log.Error("a backup failed", "err", err)
			panic(http.ErrAbortHandler) // the client sees that the file is not complete
		}
	})
	server := web.Server{Log: s.log, Handler: handler, Limits: web.Limits{Header: time.Second, Drain: time.Second}}
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

// backupCommand asks the process that owns the data folder for a backup.
func backupCommand(args []string, std IO) int {
	var to string
	c, code := loadWith(args, std, func(fs flags) { fs.StringVar(&to, "to", "", "backup: the file to write; it must not exist") })
	if code != exitOK || c == nil {
		return code
	}
	if to == "" {
		_, _ = fmt.Fprintln(std.Err, "emco backup: name the file with -to FILE")
		return exitUsage
	}
	m, err := backup(context.Background(), *c, to)
	if err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco backup:", err)
		return exitFailed
	}
	_, _ = fmt.Fprintf(std.Out, "%s holds %d documents and %d packages; keep the sealing key in another place\n", to, m.Documents, len(m.Sums)-2)
	for _, digest := range m.Missing {
		_, _ = fmt.Fprintf(std.Out, "package %s is missing in the store: upload it again\n", digest)
	}
	return exitOK
}

func backup(ctx context.Context, c config.Config, to string) (m manifestOfBackup, err error) {
	path, done, err := reachable(backupSocket(c))
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
		return m, fmt.Errorf("no process with embedded stores answers in %s: start emco, or copy the folder while it is stopped; back up external stores with their own tools (%w)", c.Data, err)
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
