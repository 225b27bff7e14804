package store

import "context"

type notaryKey struct{}

// Notary records who changes documents in a request.
type Notary interface {
	// Note is called with the key of a document just before a change of it becomes visible, and again just after. An error
	// before refuses the change. It may be called by several goroutines, and again for a change that starts over.
	Note(ctx context.Context, k Key, deletes bool) error
}

// WithNotary returns a context whose changes of documents are noted by n. n does not see writes of a Trial, nor of
// documents that belong to the store itself.
func WithNotary(ctx context.Context, n Notary) context.Context {
	return context.WithValue(ctx, notaryKey{}, n)
}

// WithoutObservers returns ctx without its notary and its witness: they do not see changes of documents with the result.
func WithoutObservers(ctx context.Context) context.Context {
	return WithWitness(WithNotary(ctx, nil), nil)
}

// note asks the notary of ctx.
func (db *DB) note(ctx context.Context, k Key, deletes bool) error {
	n, ok := ctx.Value(notaryKey{}).(Notary)
	if _, trial := db.driver.(*trialDriver); !ok || trial || k.hidden() {
		return nil
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	return n.Note(ctx, k, deletes)
}
