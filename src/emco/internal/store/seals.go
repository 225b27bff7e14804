package store

import (
	"context"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// AnySealed reports whether any document has a secret. Such a store needs the key that sealed
// them: a new key could never open them.
func AnySealed(ctx context.Context, d Driver) (bool, error) {
	doc, err := firstSealed(ctx, d)
	return doc.Secret != nil, err
}

// CheckKey opens the secret of one document, if any has one, so that a wrong key is found
// before anything is sealed with it. The error is that of Reveal.
func (db *DB) CheckKey(ctx context.Context) error {
	doc, err := firstSealed(ctx, db.driver)
	if err != nil {
		return err
	}
	_, err = db.Reveal(ctx, doc)
	return err
}

// firstSealed returns the first document with a secret; a zero one if none has.
func firstSealed(ctx context.Context, d Driver) (Doc, error) {
	for doc, err := range d.List(ctx, "", Query{}) {
		if err != nil || doc.Secret != nil {
			return doc, err
		}
	}
	return Doc{}, nil
}

// ProveKey seals a document with the key, unless the store has one already, and opens it. So processes
// with different keys cannot share a store, even before the first secret. The error is that of Reveal.
func (db *DB) ProveKey(ctx context.Context) error {
	d := Doc{Key: keyProof, UID: "1", Rev: 1, Body: []byte("{}"), Created: db.now(), Updated: db.now()}
	d.Secret = db.sealer.Seal(seal.Secret("proof"), string(d.Key), d.UID)
	if _, err := db.put(ctx, d, 0); err != nil && !errs.Is(err, errs.Exists) {
		return fmt.Errorf("store the proof of the sealing key: %w", err)
	}
	stored, err := db.driver.Get(ctx, keyProof)
	if err == nil {
		_, err = db.Reveal(ctx, stored)
	}
	return err
}
