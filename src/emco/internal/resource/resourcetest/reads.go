package resourcetest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// ErrBroken is an error of a driver.
var ErrBroken = errors.New("the disk is broken")

// Reads is a driver that counts the documents that are read, and fails as a test requires. A test sets its members while nothing is read.
type Reads struct {
	store.Driver // a store.Follower, as that of Driver

	Got, Listed atomic.Int64               // documents that were read one by one or by their keys, and by lists
	Batches     atomic.Int64               // reads of several documents by their keys
	Fails       func(store.Key) (yes bool) // whether the read of a document ends with ErrBroken; nil: none does
	Blind       atomic.Bool                // it does not know what has changed
}

// Get is that of the driver.
func (r *Reads) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	if r.Fails != nil && r.Fails(k) {
		return store.Doc{}, ErrBroken
	}
	r.Got.Add(1)
	return r.Driver.Get(ctx, k)
}

// GetEach is that of the driver.
func (r *Reads) GetEach(ctx context.Context, keys []store.Key) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		r.Batches.Add(1)
		broken := -1
		if r.Fails != nil {
			broken = slices.IndexFunc(keys, r.Fails)
		}
		if broken >= 0 {
			keys = keys[:broken]
		}
		r.Got.Add(int64(len(keys)))
		for doc, err := range store.GetEach(ctx, r.Driver, keys) {
			if !yield(doc, err) || err != nil {
				return
			}
		}
		if broken >= 0 {
			yield(store.Doc{}, ErrBroken)
		}
	}
}

// List is that of the driver.
func (r *Reads) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		for doc, err := range r.Driver.List(ctx, under, q) {
			if err == nil && r.Fails != nil && r.Fails(doc.Key) {
				yield(store.Doc{}, ErrBroken)
				return
			}
			r.Listed.Add(1)
			if !yield(doc, err) {
				return
			}
		}
	}
}

// Changes is that of the driver.
func (r *Reads) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	changes, err := r.Driver.(store.Follower).Changes(ctx, mark)
	if r.Blind.Load() {
		changes = store.Changes{All: true, Mark: changes.Mark}
	}
	return changes, err
}
