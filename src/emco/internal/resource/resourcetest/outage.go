package resourcetest

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// Outage is a store of documents that can be away: it answers Unavailable then.
type Outage struct {
	store.Driver
	away atomic.Bool
}

// NewOutage opens a store, which is not away, in a temporary directory; it is closed when the test ends.
func NewOutage(t testing.TB) (*Outage, *store.DB) {
	t.Helper()
	driver, blobs := Driver(t)
	o := &Outage{Driver: driver}
	return o, store.New(o, blobs, seal.New(seal.NewKey()))
}

// SetAway makes the store be away, or answer again.
func (o *Outage) SetAway(away bool) { o.away.Store(away) }

func (o *Outage) check() error {
	if o.away.Load() {
		return errs.E(errs.Unavailable, "ask", "documents", errors.New("the store is away"))
	}
	return nil
}

// Get implements store.Driver.
func (o *Outage) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	if err := o.check(); err != nil {
		return store.Doc{}, err
	}
	return o.Driver.Get(ctx, k)
}

// List implements store.Driver.
func (o *Outage) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	if err := o.check(); err != nil {
		return func(yield func(store.Doc, error) bool) { yield(store.Doc{}, err) }
	}
	return o.Driver.List(ctx, under, q)
}

// Put implements store.Driver.
func (o *Outage) Put(ctx context.Context, d store.Doc, at int64) error {
	if err := o.check(); err != nil {
		return err
	}
	return o.Driver.Put(ctx, d, at)
}

// Remove implements store.Driver.
func (o *Outage) Remove(ctx context.Context, k store.Key, at int64) error {
	if err := o.check(); err != nil {
		return err
	}
	return o.Driver.Remove(ctx, k, at)
}

// Changes implements store.Follower.
func (o *Outage) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	if err := o.check(); err != nil {
		return store.Changes{}, err
	}
	return o.Driver.(store.Follower).Changes(ctx, mark)
}
