package store

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// DB is the document store of services. It guarantees that a document's parent exists, and
// that a document with references to it is not deleted. Any number of DBs in any number of
// processes may share one store.
type DB struct {
	records
	blobs  Blobs
	sealer *seal.Sealer
}

const (
	// lease is the age at which an unfinished write counts as abandoned. Longer writes are
	// renewed. If clocks differ by more, unfinished writes are repaired too early or too
	// late: a writer that loses one starts over, nothing breaks.
	lease = 5 * time.Second
	// finishWithin bounds the writes that continue after a client has disconnected.
	finishWithin = 30 * time.Second
	// maxTries bounds how often a write that lost a race starts over.
	maxTries = 32
)

// New returns a DB over the given parts. It starts nothing and needs no closing.
func New(d Driver, b Blobs, s *seal.Sealer) *DB {
	return &DB{records: records{driver: d, lease: lease, clock: time.Now}, blobs: b, sealer: s}
}

// Get returns the document, which may be being deleted; NotFound if it does not exist. Its
// Secret is sealed: see Reveal.
func (db *DB) Get(ctx context.Context, k Key) (Doc, error) {
	d, err := db.driver.Get(ctx, k)
	if err == nil && d.State == Pending {
		return Doc{}, notFound("get", k)
	}
	return d, err
}

// GetEach yields the documents of keys, in their order, as Get returns them. It leaves out those that do not exist, and ends at the
// first error.
func (db *DB) GetEach(ctx context.Context, keys []Key) iter.Seq2[Doc, error] {
	return func(yield func(Doc, error) bool) {
		for d, err := range GetEach(ctx, db.driver, keys) {
			if err == nil && d.State == Pending {
				continue
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// Reveal unseals the secret of a document that Get or List returned; nil if it has
// none. The error is Unavailable when the sealing key is missing, Internal when the
// document was tampered with.
func (db *DB) Reveal(ctx context.Context, d Doc) (seal.Secret, error) {
	if d.Secret == nil {
		return nil, nil
	}
	plain, err := db.sealer.Open(ctx, d.Secret, string(d.Key), d.UID)
	if err != nil {
		return nil, errs.E(errs.KindOf(err), "unseal", string(d.Key), err)
	}
	return plain, nil
}

// List yields the documents below under, "" for all, in byte order of their keys,
// and ends at the first error. It reads documents one after another, not all at the same
// moment.
func (db *DB) List(ctx context.Context, under Key, q Query) iter.Seq2[Doc, error] {
	return func(yield func(Doc, error) bool) {
		q := q
		for left := q.Limit; ; q.Limit = left {
			read := 0
			for d, err := range db.driver.List(ctx, under, q) {
				read++
				q.After = d.Key
				if err == nil && (d.State == Pending || d.Key.hidden()) {
					continue // it does not count
				}
				if !yield(d, err) || err != nil {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if q.Limit == 0 || read < q.Limit {
				return
			}
		}
	}
}

// Changes returns what was written since an earlier call returned mark, 0 for the first
// call; see Follower. Without a Follower, everything may have changed.
func (db *DB) Changes(ctx context.Context, mark int64) (Changes, error) {
	if f, ok := db.driver.(Follower); ok {
		return f.Changes(ctx, mark)
	}
	return Changes{All: true}, nil
}

// ReceiveBlob takes in uploaded content of at most limit bytes, TooLarge beyond, without
// storing it. The caller must discard the upload.
func (db *DB) ReceiveBlob(ctx context.Context, r io.Reader, limit int64) (Upload, error) {
	return db.blobs.Receive(ctx, r, limit)
}

// OpenBlob reads uploaded content; NotFound if it does not exist.
func (db *DB) OpenBlob(ctx context.Context, d manifest.Digest) (io.ReadCloser, error) {
	return db.blobs.Open(ctx, d)
}

// SweepBlobs removes content that no document names, in any state, and that was stored more
// than grace ago. The grace must be longer than it takes from the storing of content to the
// document that names it.
func (db *DB) SweepBlobs(ctx context.Context, grace time.Duration) error {
	before := db.clock().Add(-grace)
	named := map[manifest.Digest]bool{}
	for d, err := range db.driver.List(ctx, "", Query{}) {
		if err != nil {
			return err
		}
		for _, b := range d.Blobs {
			named[b.Digest] = true
		}
	}
	return db.blobs.Sweep(ctx, before, func(d manifest.Digest) bool { return named[d] })
}
