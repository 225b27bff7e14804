// Package store keeps documents. DB is what services call: it knows parents,
// references, revisions, secrets and blobs, once for all drivers. A Driver only
// keeps single documents with compare-and-swap; no multi-document transaction is
// asked of it, so the same code runs on SQLite and on MongoDB.
package store

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Key names a document by its REST path below /v2, such as
// "cluster-providers/edge/clusters/c1". Keys below it are its children.
type Key string

// Doc is one stored document.
type Doc struct {
	Key     Key
	UID     string // decimal positive int63, new for each creation, kept through replacements
	Rev     int64  // 1 when created, +1 with each replacement
	Parent  Key    // empty for a root
	Refs    []Key  // documents this one refers to, sorted; they cannot be deleted while it exists
	Body    []byte // JSON as clients may see it: secrets are masked
	Secret  []byte // what clients never see, sealed; nil if there is none. See DB.Reveal
	Blobs   []Blob // uploaded files, by part name
	Created time.Time
	Updated time.Time // of the last creation or replacement; both times are UTC, in whole milliseconds

	// What follows serves the protocol of writing; services have no use for it.

	State  State     // services see Live and Deleting documents only
	Tag    int64     // positive, drawn at random for each write, so it never comes back; what drivers compare
	Since  time.Time // when this tag was written
	Claims []Key     // references of a replacement under way, sorted; a driver finds them like Refs
}

// Blob names uploaded content that a document holds.
type Blob struct {
	Name   string          `json:"name"` // the multipart part: "file"
	File   string          `json:"file"` // the file name the client gave, if any
	Digest manifest.Digest `json:"digest"`
	Size   int64           `json:"size"`
}

// State is where a document stands in its creation or deletion, see the package's
// README for the protocol.
type State uint8

// The states of a document.
const (
	Live     State = iota // as users know it
	Pending               // written, but its parent and references are not yet confirmed; does not exist for readers
	Deleting              // marked; nothing new may be put below it or refer to it
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
	Refers Key // only documents that refer to this key, be it by Refs or Claims; empty for all
	After  Key // start after this key; for paging
	Limit  int // at most so many; 0 for all
	Depth  int // only documents exactly so many segments below: 1 for the members of a collection, 2 for those with names of two parts; 0 for all
}

// Driver keeps documents. Errors are classified: NotFound, Exists, Conflict,
// Unavailable. A write that returned nil survives a kill of the process and a
// loss of power, and every read that starts after it sees it, in whichever process.
// An error of kind Unavailable leaves open whether a write was done.
type Driver interface {
	// Get returns the document, in whatever State; NotFound if there is none.
	Get(ctx context.Context, k Key) (Doc, error)
	// List yields documents whose key is below under ("" for all), in byte order of
	// keys, in whatever State; it ends at the first error. "a/b/c" is below "a/b",
	// "a/b" and "a/bc" are not. Documents that are there from beginning to end are
	// listed once; of those that come, go or change meanwhile, nothing is promised.
	// A listing may be abandoned, and its consumer may write meanwhile.
	List(ctx context.Context, under Key, q Query) iter.Seq2[Doc, error]
	// Put writes d, all of it or nothing, if the document stored under its key has
	// the tag at (0: if there is none, else Exists); Conflict otherwise.
	Put(ctx context.Context, d Doc, at int64) error
	// Remove deletes the document if it has the tag at; Conflict if not, nil if it is absent.
	Remove(ctx context.Context, k Key, at int64) error
}

// Follower is what a Driver may be besides: one that tells what was written.
type Follower interface {
	// Changes tells what was written since an earlier call of it returned mark, which may
	// have been asked of another Driver on the same store; 0 if there was none. A write
	// that returned before the call is told of.
	Changes(ctx context.Context, mark int64) (Changes, error)
}

// Changes are what was written to a store since a mark.
type Changes struct {
	Keys []Key // of documents that were put or removed, in order, each at least once
	All  bool  // any document may have been: there was no mark, or it is too old
	Mark int64 // of now, for the next call
}

// Blobs keeps uploaded content by digest. Content is written once and never
// changes; it survives what documents survive.
type Blobs interface {
	// Put stores r and returns its digest and size; TooLarge beyond limit bytes, and then nothing is kept.
	// Content that is there already counts as written now.
	Put(ctx context.Context, r io.Reader, limit int64) (manifest.Digest, int64, error)
	// Open reads content; NotFound if there is none.
	Open(ctx context.Context, d manifest.Digest) (io.ReadCloser, error)
	// Sweep removes content written before olderThan for which keep returns false.
	Sweep(ctx context.Context, olderThan time.Time, keep func(manifest.Digest) bool) error
}
