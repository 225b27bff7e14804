package store

import (
	"context"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// generationKey is the key of the document that holds the generation of the store, see package generation.
const generationKey Key = "system/generation"

// Generation returns the document that holds the generation of the store; the zero Doc if there is none yet.
func Generation(ctx context.Context, d Driver) (Doc, error) {
	doc, err := d.Get(ctx, generationKey)
	if errs.Is(err, errs.NotFound) {
		return Doc{}, nil
	}
	return doc, err
}

// PutGeneration replaces the document that Generation returned. The error is Exists or Conflict if another process was faster.
func PutGeneration(ctx context.Context, d Driver, was Doc, body []byte) error {
	doc := was
	doc.Key, doc.UID = generationKey, "1"
	return putSystem(ctx, d, doc, body, was.Tag)
}

// Filled reports whether the store has a document of users.
func Filled(ctx context.Context, d Driver) (bool, error) {
	for doc, err := range d.List(ctx, "", Query{}) {
		if err != nil || !doc.Key.hidden() {
			return err == nil, err
		}
	}
	return false, nil
}
