package wrap

import (
	"context"
	"iter"

	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Documents returns the driver with points around its methods.
func Documents(s *failpoint.Set, d store.Driver) store.Driver {
	points := documentStore{d, s}
	if c, ok := d.(store.Creator); ok {
		return creatingStore{points, c}
	}
	return points
}

// creatingStore is a documentStore above a store.Creator.
type creatingStore struct {
	documentStore
	creator store.Creator
}

// Create writes a new document.
func (d creatingStore) Create(ctx context.Context, doc store.Doc, others map[store.Key]int64) error {
	return between(d.writing(ctx, doc.Key), DocumentPutBefore, DocumentPutAfter, func() error { return d.creator.Create(ctx, doc, others) })
}

type documentStore struct {
	store.Driver
	set *failpoint.Set
}

// Get reads a document.
func (d documentStore) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	if err := at(ctx, d.set, DocumentRead, "read", string(k)); err != nil {
		return store.Doc{}, err
	}
	return d.Driver.Get(ctx, k)
}

// GetEach reads documents. It fails before the first.
func (d documentStore) GetEach(ctx context.Context, keys []store.Key) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		for _, k := range keys {
			if err := at(ctx, d.set, DocumentRead, "read", string(k)); err != nil {
				yield(store.Doc{}, err)
				return
			}
		}
		store.GetEach(ctx, d.Driver, keys)(yield)
	}
}

// List reads documents. It fails before the first.
func (d documentStore) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		if err := at(ctx, d.set, DocumentRead, "list", string(under)); err != nil {
			yield(store.Doc{}, err)
			return
		}
		d.Driver.List(ctx, under, q)(yield)
	}
}

// Changes returns what was written, if the driver can.
func (d documentStore) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	if err := at(ctx, d.set, DocumentRead, "list", "changes"); err != nil {
		return store.Changes{}, err
	}
	if f, ok := d.Driver.(store.Follower); ok {
		return f.Changes(ctx, mark)
	}
	return store.Changes{All: true}, nil
}

// Put writes a document.
func (d documentStore) Put(ctx context.Context, doc store.Doc, tag int64) error {
	return between(d.writing(ctx, doc.Key), DocumentPutBefore, DocumentPutAfter, func() error { return d.Driver.Put(ctx, doc, tag) })
}

// Remove deletes a document.
func (d documentStore) Remove(ctx context.Context, k store.Key, tag int64) error {
	return between(d.writing(ctx, k), DocumentRemoveBefore, DocumentRemoveAfter, func() error { return d.Driver.Remove(ctx, k, tag) })
}

func (d documentStore) writing(ctx context.Context, k store.Key) func(point string) error {
	return func(point string) error { return at(ctx, d.set, point, "write", string(k)) }
}
