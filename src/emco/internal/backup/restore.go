package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/durable"
	"github.com/emco-orchestrator/emco/src/emco/internal/fileowner"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	drivers "github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/blobdir"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/transfer"
)

// Restore makes a data folder from a backup: under another name first, which it changes when the folder is complete. The folder
// may exist with nothing but the sealing key, a file of this name, which stays.
func Restore(ctx context.Context, data, sealingKey, from string) (m Manifest, err error) {
	if err := checkEmpty(data, sealingKey); err != nil {
		return m, err
	}
	made := filepath.Clean(data) + ".restoring"
	err = os.Mkdir(made, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return m, fmt.Errorf("%w; remove what an interrupted restore left", err)
	}
	if err != nil {
		return m, fileowner.Explain(err, made)
	}
	defer os.RemoveAll(made) // it is gone if all went well
	if m, err = restoreTo(ctx, made, from); err != nil {
		return m, err
	}
	if err := os.Rename(filepath.Join(data, sealingKey), filepath.Join(made, sealingKey)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if err := os.Remove(data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if err := os.Rename(made, data); err != nil {
		return m, err
	}
	return m, durable.SyncDir(filepath.Dir(filepath.Clean(data)))
}

// checkEmpty wants no data folder, or one with nothing but a sealing key.
func checkEmpty(path, sealingKey string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != sealingKey {
			return fmt.Errorf("%s is not empty (%s): stop emco and move the folder away, or name another one with -data", path, e.Name())
		}
	}
	return fileowner.Explain(err, path)
}

func restoreTo(ctx context.Context, folder, from string) (Manifest, error) {
	parts := filepath.Join(folder, "parts")
	if err := os.Mkdir(parts, 0o700); err != nil {
		return Manifest{}, err
	}
	packages, err := blobdir.Open(filepath.Join(folder, "packages"))
	if err != nil {
		return Manifest{}, err
	}
	m, err := unpack(from, func(name string, r io.Reader) error {
		digest, content := strings.CutPrefix(name, contentPrefix)
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
	if err := embedded.Restore(filepath.Join(parts, etcdEntry), filepath.Join(folder, "etcd")); err != nil {
		return m, err
	}
	if m.Driver == drivers.SQLite {
		if err := restoreDocuments(ctx, filepath.Join(parts, documentsEntry), filepath.Join(folder, "documents.db"), m.Documents); err != nil {
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
