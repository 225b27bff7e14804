// Package inventory keeps the registered clusters with their labels, the members of logical
// clouds, and the key-value pairs that were asked for, in memory. Each call reads only the documents that have changed
// since the one before, so that a look at a large fleet after a small change is cheap.
package inventory

import (
	"context"
	"path"
	"slices"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const providers = "cluster-providers"

// Inventory is safe for use by many goroutines. Make it with New.
type Inventory struct {
	db *store.DB

	mu        sync.Mutex
	mark      int64           // of the changes that have been read; guarded by mu
	fleet     *Fleet          // nil: nothing was read yet; guarded by mu
	clouds    cachedClouds    // guarded by mu
	keyValues cachedKeyValues // guarded by mu
}

// Confine makes the filter that keeps apps within a logical cloud. members are the keys of
// its clusters.
type Confine func(name string, members []v2.ClusterKey) placement.Filter

// New returns an inventory of what the store holds. It reads nothing yet.
func New(db *store.DB, confine Confine) *Inventory {
	return &Inventory{db: db, clouds: newCachedClouds(confine), keyValues: newCachedKeyValues()}
}

// The time between two looks of Follow. The store remembers the keys of the last 5,000 writes: a fleet that is being registered must not
// write more between two looks, or all of it is read again.
const (
	followEvery     = 5 * time.Second
	followBusyEvery = time.Second // after a look that found something
)

// Follow reads what is written every few seconds, until ctx ends, so that requests find little to read. What it cannot read, the next
// request reads.
func (i *Inventory) Follow(ctx context.Context) {
	for ctx.Err() == nil {
		wait := followEvery
		if i.follow(readpoint.With(ctx)) {
			wait = followBusyEvery
		}
		_ = pause.For(ctx, wait)
	}
}

// follow reads what was written since the last look, and the members of logical clouds that got some. It reports whether anything was
// written.
func (i *Inventory) follow(ctx context.Context) (changed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	mark := i.mark
	if i.updateLocked(ctx) != nil {
		return false
	}
	for _, key := range i.clouds.takeGrown() {
		_, _ = i.clouds.get(ctx, i.db, key, path.Base(string(key)))
	}
	return i.mark != mark
}

// Fleet returns the clusters now, including all writes from before the call.
func (i *Inventory) Fleet(ctx context.Context) (*Fleet, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.updateLocked(ctx); err != nil {
		return nil, err
	}
	return i.fleet, nil
}

// Cloud returns the filter that admits the members of a logical cloud. The same filter is
// returned until they change.
func (i *Inventory) Cloud(ctx context.Context, key store.Key, name string) (placement.Filter, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.updateLocked(ctx); err != nil {
		return nil, err
	}
	return i.clouds.get(ctx, i.db, key, name)
}

// updateLocked reads what was written since the last call. The mark moves when all of it was
// read, so that a failure loses nothing.
func (i *Inventory) updateLocked(ctx context.Context) error {
	changes, err := i.db.Changes(ctx, i.mark)
	if err != nil {
		return err
	}
	if i.fleet == nil || changes.All {
		i.clouds.expire()
		i.keyValues = newCachedKeyValues()
		i.fleet, err = i.readAll(ctx)
	} else {
		err = i.readSomeLocked(ctx, changes.Keys)
	}
	if err != nil {
		return err
	}
	i.mark = changes.Mark
	return nil
}

// readAll reads every cluster and label.
func (i *Inventory) readAll(ctx context.Context) (*Fleet, error) {
	d := newFleet().edit()
	for doc, err := range i.db.List(ctx, providers, store.Query{}) {
		if err != nil {
			return nil, err
		}
		d.put(doc.Key)
	}
	return d.build(), nil
}

// readSomeLocked reads the clusters, labels and members of known logical clouds among keys.
func (i *Inventory) readSomeLocked(ctx context.Context, keys []store.Key) error {
	slices.Sort(keys) // clusters before their labels
	var changed []store.Key
	for _, k := range slices.Compact(keys) {
		i.keyValues.forget(k)
		if _, ok := parse(k); ok {
			changed = append(changed, k)
		}
	}
	if err := i.clouds.update(ctx, i.db, keys); err != nil || len(changed) == 0 {
		return err
	}
	fleet, err := i.fleet.with(changed, i.db.GetEach(ctx, changed))
	if err == nil {
		i.fleet = fleet
	}
	return err
}
