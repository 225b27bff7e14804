package store

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Item is a document with its body decoded.
type Item[T any] struct {
	Doc   Doc
	Value T
}

// Decode reads a document's body; its secrets are masked. The error is Internal:
// stored documents were validated.
func Decode[T any](d Doc) (T, error) {
	var v T
	if err := json.Unmarshal(d.Body, &v); err != nil {
		return v, errs.E(errs.Internal, "decode", string(d.Key), err)
	}
	return v, nil
}

// All yields the documents below a key, decoded; it ends at the first error.
func All[T any](ctx context.Context, db *DB, under Key, q Query) iter.Seq2[Item[T], error] {
	return func(yield func(Item[T], error) bool) {
		for d, err := range db.List(ctx, under, q) {
			item := Item[T]{Doc: d}
			if err == nil {
				item.Value, err = Decode[T](d)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}
