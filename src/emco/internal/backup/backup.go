// Package backup copies the embedded stores of a running process into one file, and makes a data folder from
// such a file.
package backup

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	drivers "github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/transfer"
)

// Source is the embedded stores of a running process.
type Source struct {
	Etcd      *embedded.Server
	Documents store.Driver
	Blobs     store.Blobs
	Driver    string                  // of the documents: SQLite, or those in etcd are in its snapshot
	Folder    string                  // for temporary files
	Hold      func() (release func()) // called during a backup: no generation of the stores begins meanwhile
}

// Write writes a backup while the process goes on. etcd comes first: a document without a deployment does no
// harm, a deployment without a document would.
func (b Source) Write(ctx context.Context, w io.Writer) error {
	defer b.Hold()()
	out := writer{tar: tar.NewWriter(w), m: Manifest{
		Format: format, Program: version.Read().Version, Time: time.Now().UTC(), Driver: b.Driver, Sums: map[string]string{},
	}}
	err := b.spooled(&out, etcdEntry, func(w io.Writer) error { return b.Etcd.Snapshot(ctx, w) })
	if err != nil {
		return err
	}
	named := transfer.Contents{}
	if b.Driver == drivers.SQLite {
		err := b.spooled(&out, documentsEntry, func(w io.Writer) (err error) {
			out.m.Documents, named, err = transfer.Write(ctx, b.Documents, w)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, digest := range slices.Sorted(maps.Keys(named)) {
		r, err := b.Blobs.Open(ctx, digest)
		if errs.Is(err, errs.NotFound) {
			out.m.Missing = append(out.m.Missing, digest)
			continue
		}
		if err != nil {
			return err
		}
		err = out.add(contentPrefix+string(digest), named[digest], r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return out.finish()
}

// spooled adds an entry whose size is not known before it is written.
func (b Source) spooled(out *writer, name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(b.Folder, ".backup-")
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
