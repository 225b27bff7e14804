// Package transfer copies documents and packages from one store to another (Copy), and documents without their packages to a
// file and back (Write, Read). It copies
// them as they are: uids, revisions, times, secrets and the id of the store stay. No process may write
// meanwhile to the store that is copied to.
package transfer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// document is one line of a file.
type document struct {
	Key     store.Key    `json:"key"`
	UID     string       `json:"uid"`
	Rev     int64        `json:"rev"`
	Parent  store.Key    `json:"parent,omitempty"`
	Refs    []store.Key  `json:"refs,omitempty"`
	Body    []byte       `json:"body,omitempty"`
	Secret  []byte       `json:"secret,omitempty"` // sealed
	Blobs   []store.Blob `json:"blobs,omitempty"`
	Created time.Time    `json:"created"`
	Updated time.Time    `json:"updated"`
	State   store.State  `json:"state,omitempty"`
	Tag     int64        `json:"tag"`
	Since   time.Time    `json:"since"`
	Claims  []store.Key  `json:"claims,omitempty"`
}

// Contents names the packages of documents, with their sizes.
type Contents map[manifest.Digest]int64

func (c Contents) add(d store.Doc) {
	for _, b := range d.Blobs {
		c[b.Digest] = b.Size
	}
}

// Write writes all documents, one line each, and returns their number and the packages that they name.
func Write(ctx context.Context, from store.Driver, w io.Writer) (n int, named Contents, err error) {
	named = Contents{}
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	for d, err := range from.List(ctx, "", store.Query{}) {
		if err != nil {
			return n, nil, err
		}
		if err := lines.Encode(document(d)); err != nil {
			return n, nil, err
		}
		named.add(d)
		n++
	}
	return n, named, out.Flush()
}

// Read creates the documents that Write wrote, in an empty store.
func Read(ctx context.Context, r io.Reader, to store.Driver) (n int, err error) {
	lines := json.NewDecoder(r)
	for {
		var d document
		err := lines.Decode(&d)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, errs.E(errs.Invalid, "read", fmt.Sprintf("document %d", n+1), err)
		}
		if err := to.Put(ctx, store.Doc(d), 0); err != nil {
			return n, err
		}
		n++
	}
}

// isEmpty reports whether a store has no document.
func isEmpty(ctx context.Context, d store.Driver) (bool, error) {
	for _, err := range d.List(ctx, "", store.Query{Limit: 1}) {
		return false, err
	}
	return true, nil
}

// Copy copies all documents and their packages into an empty store, packages first, and compares afterwards.
// missing are packages that documents name and the store does not have.
func Copy(ctx context.Context, from store.Driver, packages store.Blobs, to store.Driver, toPackages store.Blobs) (n int, missing []manifest.Digest, err error) {
	empty, err := isEmpty(ctx, to)
	if err == nil && !empty {
		err = errs.New(errs.Conflict, "the store to copy to has documents already; nothing was copied")
	}
	if err != nil {
		return 0, nil, err
	}
	named := Contents{}
	for d, err := range from.List(ctx, "", store.Query{}) {
		if err != nil {
			return 0, nil, err
		}
		named.add(d)
	}
	for digest, size := range named {
		err := copyPackage(ctx, packages, toPackages, digest, size)
		if errs.Is(err, errs.NotFound) {
			missing = append(missing, digest)
		} else if err != nil {
			return 0, nil, err
		}
	}
	for d, err := range from.List(ctx, "", store.Query{}) {
		if err == nil {
			err = to.Put(ctx, d, 0)
		}
		if err != nil {
			return n, missing, err
		}
		n++
	}
	return n, missing, equal(ctx, from, to)
}

// copyPackage copies one package; NotFound if there is none.
func copyPackage(ctx context.Context, from, to store.Blobs, digest manifest.Digest, size int64) error {
	r, err := from.Open(ctx, digest)
	if err != nil {
		return err
	}
	defer r.Close()
	got, _, err := to.Put(ctx, r, max(size, 1))
	if err == nil && got != digest {
		err = errs.New(errs.Internal, fmt.Sprintf("the content of package %s is damaged: its digest is %s", digest, got))
	}
	return err
}

// equal compares the documents of two stores.
func equal(ctx context.Context, a, b store.Driver) error {
	for want, err := range a.List(ctx, "", store.Query{}) {
		if err != nil {
			return err
		}
		got, err := b.Get(ctx, want.Key)
		if err != nil {
			return err
		}
		x, err1 := json.Marshal(document(want))
		y, err2 := json.Marshal(document(got))
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if string(x) != string(y) {
			return errs.New(errs.Internal, fmt.Sprintf("document %s differs after the copy; use the former store", want.Key))
		}
	}
	return nil
}
