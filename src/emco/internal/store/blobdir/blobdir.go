// Package blobdir stores uploaded content in the files of a folder, by digest. A file exists
// whole or not at all, even after a crash; several processes of one host may share the
// folder.
package blobdir

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/durable"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/spool"
)

// The folder holds:
//
//	ab/abcdef…     content, by digest, below its first two digits
//	tmp/…          uploads in progress
//	lock           shared while a file is added, exclusive while one is removed
const (
	tmpDir   = "tmp"
	lockFile = "lock"
)

// Dir is a store.Blobs in a folder.
type Dir struct {
	path string
}

var _ store.Blobs = (*Dir)(nil)

// Open uses the folder at path and creates it if it does not exist, readable by its owner
// only. It removes uploads that a crash interrupted.
func Open(path string) (*Dir, error) {
	d := &Dir{path: path}
	err := durable.MakeDir(path)
	if err == nil {
		err = durable.MakeDir(filepath.Join(path, tmpDir))
	}
	if err == nil {
		err = d.clean()
	}
	if err != nil {
		return nil, errs.E(errs.Unavailable, "open", path, err)
	}
	return d, nil
}

// clean removes abandoned uploads: each is locked while it is written, and a lock ends with
// its process.
func (d *Dir) clean() error {
	entries, err := os.ReadDir(filepath.Join(d.path, tmpDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := d.cleanOne(filepath.Join(d.path, tmpDir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d *Dir) cleanOne(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil // it is being written
	}
	return os.Remove(name)
}

// Put implements store.Blobs.
func (d *Dir) Put(ctx context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error) {
	up, err := d.Receive(ctx, r, limit)
	if err != nil {
		return "", 0, err
	}
	defer up.Discard()
	digest, size := up.Content()
	if err := up.Keep(); err != nil {
		return "", 0, err
	}
	return digest, size, nil
}

// Receive implements store.Blobs. It hashes the content while it writes it to a temporary
// file.
func (d *Dir) Receive(ctx context.Context, r io.Reader, limit int64) (store.Upload, error) {
	f, err := d.temp()
	if err != nil {
		return nil, unavailable("store", "upload", err)
	}
	u := &upload{dir: d, file: f}
	if u.digest, u.size, err = spool.Fill(ctx, f, r, limit); err != nil {
		u.Discard()
		return nil, err
	}
	return u, nil
}

// upload is a temporary file. Its lock keeps cleaners away.
type upload struct {
	dir    *Dir
	file   *os.File
	digest manifest.Digest
	size   int64
	kept   bool
}

// Content implements store.Upload.
func (u *upload) Content() (manifest.Digest, int64) { return u.digest, u.size }

// Open implements store.Upload.
func (u *upload) Open() (io.ReadCloser, error) {
	if u.kept {
		return u.dir.Open(context.Background(), u.digest)
	}
	f, err := os.Open(u.file.Name())
	if err != nil {
		return nil, unavailable("read", "upload", err)
	}
	return f, nil
}

// Keep implements store.Upload.
func (u *upload) Keep() error {
	if u.kept {
		return nil
	}
	if err := u.file.Sync(); err != nil {
		return unavailable("store", "upload", err)
	}
	if err := u.dir.adopt(u.file.Name(), u.digest); err != nil {
		return unavailable("store", string(u.digest), err)
	}
	u.kept = true
	return nil
}

// Discard implements store.Upload.
func (u *upload) Discard() {
	if !u.kept {
		_ = os.Remove(u.file.Name()) // a file that stays is removed by the next sweep
	}
	_ = u.file.Close()
}

// temp creates a file for an upload and locks it. If a cleaner removes the file in between,
// it tries again.
func (d *Dir) temp() (*os.File, error) {
	for {
		f, err := os.OpenFile(filepath.Join(d.path, tmpDir, rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(f, syscall.LOCK_EX); err != nil {
			return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
		if _, err := os.Stat(f.Name()); !errors.Is(err, fs.ErrNotExist) {
			return f, nil
		}
		_ = f.Close()
	}
}

// adopt moves the file to its place, over an equal one if that exists, so that it counts as
// written now. The lock keeps a sweep from removing it because of its former age.
func (d *Dir) adopt(tmp string, digest manifest.Digest) error {
	unlock, err := d.lock(syscall.LOCK_SH)
	if err != nil {
		return err
	}
	defer unlock()
	name := d.name(digest)
	dir := filepath.Dir(name)
	if err := durable.MakeDir(dir); err != nil {
		return err
	}
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// Open implements store.Blobs.
func (d *Dir) Open(_ context.Context, digest manifest.Digest) (io.ReadCloser, error) {
	if !spool.IsDigest(digest) {
		return nil, errs.E(errs.NotFound, "open", "content", errors.New("not a digest"))
	}
	f, err := os.Open(d.name(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errs.E(errs.NotFound, "open", string(digest), errors.New("not found"))
	}
	if err != nil {
		return nil, unavailable("open", string(digest), err)
	}
	return f, nil
}

// Sweep implements store.Blobs. It also removes abandoned uploads.
func (d *Dir) Sweep(ctx context.Context, olderThan time.Time, keep func(manifest.Digest) bool) error {
	if err := d.clean(); err != nil {
		return unavailable("sweep", d.path, err)
	}
	err := filepath.WalkDir(d.path, func(name string, e fs.DirEntry, err error) error {
		if c := context.Cause(ctx); c != nil {
			return c
		}
		digest := manifest.Digest(filepath.Base(name))
		if err != nil || e.IsDir() || !spool.IsDigest(digest) || keep(digest) {
			return err
		}
		return d.drop(name, olderThan)
	})
	if err != nil {
		return unavailable("sweep", d.path, err)
	}
	return nil
}

// drop removes the file if it is still old while the lock keeps others from renewing it.
func (d *Dir) drop(name string, olderThan time.Time) error {
	unlock, err := d.lock(syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	info, err := os.Stat(name)
	if err == nil && info.ModTime().Before(olderThan) {
		err = os.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// lock locks the folder, shared or exclusive; the lock ends with the process at the latest.
func (d *Dir) lock(how int) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(d.path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, how); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// flock locks f, and tries again if a signal interrupts it.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func (d *Dir) name(digest manifest.Digest) string {
	return filepath.Join(d.path, string(digest[:2]), string(digest))
}

func unavailable(op, subject string, err error) error {
	return errs.E(errs.Unavailable, op, subject, err)
}
