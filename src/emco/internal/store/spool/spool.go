// Package spool takes in uploads: it hashes the content while it copies it, within a limit, and keeps
// it in a file until a store takes it over.
package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const chunk = 64 << 10 // bytes read at a time

// Fill copies r into w until its end, at most limit bytes, and returns digest and size. The error is
// TooLarge beyond the limit, Malformed if r breaks off, and Unavailable if w does or ctx ends.
func Fill(ctx context.Context, w io.Writer, r io.Reader, limit int64) (manifest.Digest, int64, error) {
	sum := sha256.New()
	var size int64
	for buf := make([]byte, chunk); ; {
		if err := context.Cause(ctx); err != nil {
			return "", 0, errs.E(errs.Unavailable, "store", "upload", err)
		}
		n, err := r.Read(buf)
		if size += int64(n); size > limit {
			return "", 0, errs.E(errs.TooLarge, "store", "upload", fmt.Errorf("is larger than %d bytes", limit))
		}
		sum.Write(buf[:n])
		if _, err := w.Write(buf[:n]); err != nil {
			return "", 0, errs.E(errs.Unavailable, "store", "upload", err)
		}
		if err == io.EOF {
			return manifest.Digest(hex.EncodeToString(sum.Sum(nil))), size, nil
		}
		if err != nil {
			return "", 0, unread(err)
		}
	}
}

// unread classifies an error of the upload's reader; an unclassified one is an interrupted body.
func unread(err error) error {
	kind := errs.KindOf(err)
	if kind == errs.Internal {
		kind = errs.Malformed
	}
	return errs.E(kind, "read", "upload", err)
}

// IsDigest reports whether d is 64 lower-case hexadecimal digits.
func IsDigest(d manifest.Digest) bool {
	raw, err := hex.DecodeString(string(d))
	return err == nil && len(raw) == sha256.Size && hex.EncodeToString(raw) == string(d)
}

// File is received content in a temporary file without a name, so that a crash leaves nothing.
type File struct {
	file   *os.File
	digest manifest.Digest
	size   int64
}

// Receive takes in r, at most limit bytes. The caller closes the file.
func Receive(ctx context.Context, r io.Reader, limit int64) (*File, error) {
	f, err := os.CreateTemp("", "emco-upload-")
	if err != nil {
		return nil, errs.E(errs.Unavailable, "store", "upload", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errs.E(errs.Unavailable, "store", "upload", errors.Join(err, f.Close()))
	}
	out := &File{file: f}
	if out.digest, out.size, err = Fill(ctx, f, r, limit); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return out, nil
}

// Content returns digest and size.
func (f *File) Content() (manifest.Digest, int64) { return f.digest, f.size }

// Reader reads the content from its beginning, independently of other readers.
func (f *File) Reader() io.Reader { return io.NewSectionReader(f.file, 0, f.size) }

// Close removes the file. Calling it again does nothing.
func (f *File) Close() error {
	err := f.file.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Keep stores received content, or renews the time of equal content. It implements Put and Receive of store.Blobs for a
// store that takes over whole files and embeds it.
type Keep func(ctx context.Context, f *File) error

// Put implements store.Blobs.
func (k Keep) Put(ctx context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error) {
	f, err := Receive(ctx, r, limit)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	if err := k(ctx, f); err != nil {
		return "", 0, err
	}
	return f.digest, f.size, nil
}

// Receive implements store.Blobs.
func (k Keep) Receive(ctx context.Context, r io.Reader, limit int64) (store.Upload, error) {
	f, err := Receive(ctx, r, limit)
	if err != nil {
		return nil, err
	}
	return &upload{file: f, keep: func() error { return k(context.WithoutCancel(ctx), f) }}, nil
}

// upload is a store.Upload on a File.
type upload struct {
	file *File
	keep func() error
	kept bool
}

// Content implements store.Upload.
func (u *upload) Content() (manifest.Digest, int64) { return u.file.Content() }

// Open implements store.Upload.
func (u *upload) Open() (io.ReadCloser, error) { return io.NopCloser(u.file.Reader()), nil }

// Keep implements store.Upload.
func (u *upload) Keep() error {
	if u.kept {
		return nil
	}
	if err := u.keep(); err != nil {
		return err
	}
	u.kept = true
	return nil
}

// Discard implements store.Upload.
func (u *upload) Discard() { _ = u.file.Close() } // it has no name: it ends with the process at the latest

// Chunks reads content that is stored in parts, one part at a time.
type Chunks struct {
	N    int                         // number of parts
	Part func(n int) ([]byte, error) // reads one part
	next int                         // of the parts
	rest []byte                      // of the part that is being read
}

// Read implements io.Reader.
func (c *Chunks) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.next >= c.N {
			return 0, io.EOF
		}
		part, err := c.Part(c.next)
		if err != nil {
			return 0, err
		}
		c.rest, c.next = part, c.next+1
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (c *Chunks) Close() error { return nil }
