// Package store stores documents. Services call DB, which implements parents, references,
// revisions, secrets and blobs once for all drivers. A Driver stores single documents with
// compare-and-swap. It needs no transaction over several documents, so the same code runs
// on SQLite, etcd and MongoDB.
package store

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Key names a document by its REST path below /v2, such as
// "cluster-providers/edge/clusters/c1". Keys below it are its children.
type Key string

// Project returns the name of the project that a key is in; empty if it is in none.
func (k Key) Project() string { return v2.ProjectOf(string(k)) }

// Collection returns the name of the collection that a key is in, such as "clusters"; empty if it is in
// none.
func (k Key) Collection() string {
	parts := strings.Split(string(k), "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

// Doc is one stored document.
type Doc struct {
	Key     Key
	UID     string // decimal positive int63, new for each creation, kept through replacements
	Rev     int64  // 1 when created, +1 with each replacement
	Parent  Key    // empty for a root
	Refs    []Key  // documents that this one refers to, sorted; they cannot be deleted while it exists
	Body    []byte // JSON as clients may see it: secrets are masked
	Secret  []byte // hidden from clients, sealed; nil for none. See DB.Reveal
	Blobs   []Blob // uploaded files, by part name
	Created time.Time
	Updated time.Time // of the last creation or replacement; both times are UTC, in whole milliseconds

	// The following fields serve the write protocol; services do not use them.

	State  State     // services see Live and Deleting documents only
	Tag    int64     // positive and random for each write, so it never repeats; drivers compare it
	Since  time.Time // when this tag was written
	Claims []Key     // references of a replacement in progress, sorted; a driver finds them like Refs
}

// Blob names uploaded content of a document.
type Blob struct {
	Name   string          `json:"name"` // the multipart part: "file"
	File   string          `json:"file"` // file name from the client, if any
	Digest manifest.Digest `json:"digest"`
	Size   int64           `json:"size"`
}

// State is the progress of a document's creation or deletion. The package's README
// describes the protocol.
type State uint8

// The states of a document.
const (
	Live     State = iota // visible to users
	Pending               // written, but its parent and references are not confirmed yet; readers do not see it
	Deleting              // marked; no new document may be below it or refer to it
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Live:
		return "live"
	case Pending:
		return "pending"
	case Deleting:
		return "deleting"
	}
	return "unknown"
}

// Query narrows a listing.
type Query struct {
	Refers Key // only documents that refer to this key, by Refs or Claims; empty for all
	After  Key // start after this key; for paging
	Limit  int // the most documents to return; 0 for all
	Depth  int // only documents exactly this many segments below: 1 for the members of a collection, 2 for names of two parts; 0 for all
}

// Driver stores documents. Errors are classified: NotFound, Exists, Conflict, Unavailable.
// A write that returned nil survives a kill of the process and a loss of power, and every
// later read sees it, in all processes. After an Unavailable a write may have been made.
// Reads whose context has a read point (package readpoint) see every write from before the context was made, and what the context itself
// wrote, and nothing older than they have seen.
type Driver interface {
	// Get returns the document, in any State; NotFound if it does not exist.
	Get(ctx context.Context, k Key) (Doc, error)
	// List yields documents whose key is below under ("" for all), in byte order of
	// keys, in any State; it ends at the first error. "a/b/c" is below "a/b", "a/b" and
	// "a/bc" are not. Documents that exist during the whole listing are listed once; for
	// documents that are created, changed or removed meanwhile, nothing is promised. A
	// consumer may stop at any time, and may write meanwhile.
	List(ctx context.Context, under Key, q Query) iter.Seq2[Doc, error]
	// Put writes all of d or nothing, if the document stored under its key has the tag at;
	// Conflict otherwise. With at 0 the document must not exist; Exists if it does.
	Put(ctx context.Context, d Doc, at int64) error
	// Remove deletes the document if it has the tag at; Conflict if not, nil if it is absent.
	Remove(ctx context.Context, k Key, at int64) error
}

// Creator is a Driver whose creations can depend on other documents. So a creation is one write, and nobody sees a document that is not
// confirmed yet.
type Creator interface {
	// Create writes all of d or nothing, if no document has its key, and if each of the others still has its tag, 0 for one
	// that does not exist. Exists if the key is used, Conflict if another document has changed. There are at most MaxOthers.
	Create(ctx context.Context, d Doc, others map[Key]int64) error
}

// MaxOthers is the most documents that the creation of one can depend on.
const MaxOthers = 50

// Batcher is a Driver that reads several documents with few requests.
type Batcher interface {
	// GetEach yields the documents of keys, in their order and in any State, as Get returns them; it leaves out those that do
	// not exist, and ends at the first error.
	GetEach(ctx context.Context, keys []Key) iter.Seq2[Doc, error]
}

// GetEach is that of a Batcher; of other drivers it reads one document after the other.
func GetEach(ctx context.Context, d Driver, keys []Key) iter.Seq2[Doc, error] {
	if b, ok := d.(Batcher); ok {
		return b.GetEach(ctx, keys)
	}
	return func(yield func(Doc, error) bool) {
		for _, k := range keys {
			doc, err := d.Get(ctx, k)
			if errs.Is(err, errs.NotFound) {
				continue
			}
			if !yield(doc, err) || err != nil {
				return
			}
		}
	}
}

// Follower is a Driver that also reports what was written.
type Follower interface {
	// Changes returns what was written since an earlier call returned mark, also if another
	// Driver on the same store did; 0 for the first call. It includes every write that
	// returned before the call.
	Changes(ctx context.Context, mark int64) (Changes, error)
}

// Changes are what was written to a store since a mark.
type Changes struct {
	Keys []Key // of documents that were put or removed, in order, each at least once
	All  bool  // any document may have changed: there was no mark, or it is too old
	Mark int64 // of now, for the next call
}

// Upload is content that has arrived and is not stored yet.
type Upload interface {
	// Content returns digest and size.
	Content() (manifest.Digest, int64)
	// Open reads the content, until the upload is discarded.
	Open() (io.ReadCloser, error)
	// Keep stores the content, as Put does. Calling it again does nothing.
	Keep() error
	// Discard removes the upload, and leaves what was kept. Calling it again does nothing.
	Discard()
}

// Blobs stores uploaded content by digest. Content is written once and never changes; it is
// as durable as documents are.
type Blobs interface {
	// Put stores r and returns its digest and size; TooLarge beyond limit bytes, and then nothing is stored.
	// Content that exists counts as written now.
	Put(ctx context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error)
	// Receive takes in r, at most limit bytes, without storing it: a document that is refused
	// leaves nothing behind. The caller must discard the upload.
	Receive(ctx context.Context, r io.Reader, limit int64) (Upload, error)
	// Open reads content; NotFound if it does not exist.
	Open(ctx context.Context, d manifest.Digest) (io.ReadCloser, error)
	// Sweep removes content written before olderThan unless keep returns true for it.
	Sweep(ctx context.Context, olderThan time.Time, keep func(manifest.Digest) bool) error
}
