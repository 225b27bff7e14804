package store

import "context"

type witnessKey struct{}

// Witness observes each document that was created, replaced or deleted on behalf of a request: the document
// before, with an empty key for a creation, and after, with an empty key for a deletion. It may be called by several goroutines.
type Witness func(before, after Doc)

// WithWitness returns a context whose writes of documents w observes, after they were made. w does not see
// writes of a Trial, nor of documents that belong to the store itself.
func WithWitness(ctx context.Context, w Witness) context.Context {
	return context.WithValue(ctx, witnessKey{}, w)
}

// tell notifies the witness of a write, unless the write is only tried or the document belongs to the store itself.
func (db *DB) tell(ctx context.Context, before, after Doc) {
	if _, trial := db.driver.(*trialDriver); trial || before.Key.hidden() || after.Key.hidden() {
		return
	}
	Tell(ctx, before, after)
}

// Tell notifies the witness of ctx of a write.
func Tell(ctx context.Context, before, after Doc) {
	if w, ok := ctx.Value(witnessKey{}).(Witness); ok && w != nil {
		w(before, after)
	}
}
