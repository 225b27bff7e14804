package store

import "context"

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
