// Package watchcache keeps the newest state of things that are watched in etcd.
package watchcache

import (
	"context"
	"sync"
)

// Cache holds the newest state of each thing of one kind. A watch and the process' own
// writes both put states into it; of two states, the one with the higher etcd revision
// stays. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	revision func(V) int64

	mu      sync.Mutex
	items   map[K]V       // guarded by mu
	synced  bool          // guarded by mu
	changed chan struct{} // guarded by mu; closed, and replaced, with each change
}

// New returns an empty cache; revision returns the etcd revision of a state.
func New[K comparable, V any](revision func(V) int64) *Cache[K, V] {
	return &Cache[K, V]{revision: revision, items: map[K]V{}, changed: make(chan struct{})}
}

// MarkSynced notes that all states from before the watch began are in the cache.
func (c *Cache[K, V]) MarkSynced() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced = true
	c.notifyLocked()
}

// Put stores a state, unless a newer one is known.
func (c *Cache[K, V]) Put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revision(v) > c.revision(c.items[k]) {
		c.items[k] = v
		c.notifyLocked()
	}
}

// Delete removes a thing that was deleted at, or after, state v, unless a newer state is
// known.
func (c *Cache[K, V]) Delete(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, ok := c.items[k]; ok && c.revision(v) >= c.revision(last) {
		delete(c.items, k)
		c.notifyLocked()
	}
}

func (c *Cache[K, V]) notifyLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Peek returns the state of a thing as far as it is known now.
func (c *Cache[K, V]) Peek(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok = c.items[k]
	return v, ok
}

// Get waits until the cache is synced and returns the state of a thing; the zero value if
// it does not exist. It fails only with ctx.
func (c *Cache[K, V]) Get(ctx context.Context, k K) (V, error) {
	for {
		c.mu.Lock()
		synced, changed, v := c.synced, c.changed, c.items[k]
		c.mu.Unlock()
		if synced {
			return v, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
}

// List returns the states that match, and a channel that is closed with the next change.
func (c *Cache[K, V]) List(match func(V) bool) (out []V, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.items {
		if match(v) {
			out = append(out, v)
		}
	}
	return out, c.changed
}

// Await waits for a state that matches; it returns false when ctx ends.
func (c *Cache[K, V]) Await(ctx context.Context, match func(V) bool) (none V, ok bool) {
	for ctx.Err() == nil {
		found, changed := c.List(match)
		if len(found) > 0 {
			return found[0], true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return none, false
}
