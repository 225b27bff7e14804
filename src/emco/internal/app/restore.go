package app

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/durable"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/blobdir"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/spool"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/transfer"
)

// flags is where a command adds its own flags to the settings.
type flags = *flag.FlagSet

// largestManifest bounds the manifest of a backup, in bytes.
const largestManifest = 64 << 20

// unpack reads a backup and hands its entries to take, except the manifest. It fails unless all entries are
// there and have their sums; what take has done by then must be dropped.
func unpack(path string, take func(name string, r io.Reader) error) (m manifestOfBackup, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer f.Close()
	sums := map[string]string{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return m, fmt.Errorf("%s is no backup, or damaged: %w", path, err)
		}
		if h.Name == backupManifest {
			if err := json.NewDecoder(io.LimitReader(r, largestManifest)).Decode(&m); err != nil {
				return m, fmt.Errorf("%s: the manifest is damaged: %w", path, err)
			}
			continue
		}
		if !backupEntry(h.Name) {
			return m, fmt.Errorf("%s has an entry %q, which is in no backup", path, h.Name)
		}
		sum := sha256.New()
		in := io.TeeReader(r, sum)
		if err := take(h.Name, in); err != nil {
			return m, err
		}
		if _, err := io.Copy(io.Discard, in); err != nil {
			return m, fmt.Errorf("%s is damaged: %w", path, err)
		}
		sums[h.Name] = hex.EncodeToString(sum.Sum(nil))
	}
	switch {
	case m.Format == 0:
		return m, fmt.Errorf("%s is not complete: it has no manifest", path)
	case m.Format > backupFormat:
		return m, fmt.Errorf("%s was written by a later version of emco (%s); restore it with that", path, m.Program)
	case !maps.Equal(sums, m.Sums):
		return m, fmt.Errorf("%s is damaged: its content and its checksums differ", path)
	}
	return m, nil
}

func backupEntry(name string) bool {
	digest, content := strings.CutPrefix(name, backupContent)
	return name == backupEtcd || name == backupDocuments || content && spool.IsDigest(manifest.Digest(digest))
}

// restoreCommand makes a data folder from a backup.
func restoreCommand(args []string, std IO) int {
	var from string
	c, code := loadWith(args, std, func(fs flags) { fs.StringVar(&from, "from", "", "restore: the file that emco backup wrote") })
	if code != exitOK || c == nil {
		return code
	}
	if from == "" {
		_, _ = fmt.Fprintln(std.Err, "emco restore: name the file with -from FILE")
		return exitUsage
	}
	m, err := restore(context.Background(), *c, from)
	if err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco restore:", err)
		return exitFailed
	}
	_, _ = fmt.Fprintf(std.Out, "%s holds the state of %s; put sealing.key there too, start emco, and adopt the branches (emcoctl branches, emcoctl adopt)\n", c.Data, m.Time.Format("2006-01-02 15:04:05 MST"))
	return exitOK
}

// restore makes the folder beside its place, and moves it there when it is complete.
func restore(ctx context.Context, c config.Config, from string) (m manifestOfBackup, err error) {
	if err := checkEmpty(c.Data); err != nil {
		return m, err
	}
	made := filepath.Clean(c.Data) + ".restoring"
	if err := os.Mkdir(made, 0o700); err != nil {
		return m, fmt.Errorf("%w; remove what an interrupted restore left", err)
	}
	defer os.RemoveAll(made) // it is gone if all went well
	if m, err = restoreTo(ctx, made, from); err != nil {
		return m, err
	}
	key := filepath.Join(c.Data, filepath.Base(keyFile(c)))
	if err := os.Rename(key, filepath.Join(made, filepath.Base(key))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if err := os.Remove(c.Data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if err := os.Rename(made, c.Data); err != nil {
		return m, err
	}
	return m, durable.SyncDir(filepath.Dir(filepath.Clean(c.Data)))
}

// checkEmpty wants no data folder, or one with nothing but a sealing key.
func checkEmpty(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != "sealing.key" {
			return fmt.Errorf("%s is not empty (%s): stop emco and move the folder away, or name another one with -data", path, e.Name())
		}
	}
	return err
}

func restoreTo(ctx context.Context, folder, from string) (manifestOfBackup, error) {
	parts := filepath.Join(folder, "parts")
	if err := os.Mkdir(parts, 0o700); err != nil {
		return manifestOfBackup{}, err
	}
	packages, err := blobdir.Open(filepath.Join(folder, "packages"))
	if err != nil {
		return manifestOfBackup{}, err
	}
	m, err := unpack(from, func(name string, r io.Reader) error {
		digest, content := strings.CutPrefix(name, backupContent)
		if !content {
			return writeFile(filepath.Join(parts, name), r)
		}
		got, _, err := packages.Put(ctx, r, 1<<62)
		if err == nil && got != manifest.Digest(digest) {
			err = fmt.Errorf("package %s is damaged", digest)
		}
		return err
	})
	if err != nil {
		return m, err
	}
	if err := embedded.Restore(filepath.Join(parts, backupEtcd), filepath.Join(folder, "etcd")); err != nil {
		return m, err
	}
	if m.Driver == sqliteDriver {
		if err := restoreDocuments(ctx, filepath.Join(parts, backupDocuments), filepath.Join(folder, "documents.db"), m.Documents); err != nil {
			return m, err
		}
	}
	return m, os.RemoveAll(parts)
}

func restoreDocuments(ctx context.Context, from, to string, want int) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	d, err := sqlite.Open(to)
	if err != nil {
		return err
	}
	n, err := transfer.Read(ctx, f, d)
	if err == nil && n != want {
		err = fmt.Errorf("the backup has %d documents, but its manifest says %d", n, want)
	}
	return errors.Join(err, d.Close())
}

func writeFile(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}
