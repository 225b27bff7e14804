package store

import "context"

// AnySealed reports whether a driver holds a document with a secret. A store for which
// it does needs the key that they were sealed with: a new one could never open them.
func AnySealed(ctx context.Context, d Driver) (bool, error) {
	doc, err := firstSealed(ctx, d)
	return doc.Secret != nil, err
}

// CheckKey opens the secret of one document, if there is any, so that a wrong key is
// seen before anything is sealed with it. The error is that of Reveal.
func (db *DB) CheckKey(ctx context.Context) error {
	doc, err := firstSealed(ctx, db.driver)
	if err != nil {
		return err
	}
	_, err = db.Reveal(ctx, doc)
	return err
}

// firstSealed returns the first document that has a secret; a zero one if none has.
func firstSealed(ctx context.Context, d Driver) (Doc, error) {
	for doc, err := range d.List(ctx, "", Query{}) {
		if err != nil || doc.Secret != nil {
			return doc, err
		}
	}
	return Doc{}, nil
}
