// Package bytelru is a least-recently-used cache with a limit in bytes: bundles of one object and of 50,000 objects differ
// by megabytes, so a limit of entries would not do. It also drops values that were not used for ten minutes.
package bytelru

import (
	"sync"
	"time"
)

// idle is how long a value that is not used stays. Content of replaced revisions is never used again,
// and would otherwise fill the cache while deployments change.
const idle = 10 * time.Minute

// Cache is a least-recently-used cache that is bounded by the bytes of its values. It is safe for use by
// many goroutines.
type Cache[K comparable, V any] struct {
	max int

	mu      sync.Mutex
	size    int                // guarded by mu
	entries map[K]*entry[K, V] // guarded by mu
	root    entry[K, V]        // of the ring: next is the newest, prev the oldest; guarded by mu
}

type entry[K comparable, V any] struct {
	prev, next *entry[K, V]
	key        K
	value      V
	size       int
	used       time.Time // last
}

// New returns an empty cache of maxBytes; 0 keeps nothing.
func New[K comparable, V any](maxBytes int) *Cache[K, V] {
	l := &Cache[K, V]{max: maxBytes, entries: map[K]*entry[K, V]{}}
	l.root.prev, l.root.next = &l.root, &l.root
	return l
}

// Get returns the value of a key, and whether the cache has it.
func (l *Cache[K, V]) Get(key K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	if !ok {
		return *new(V), false
	}
	e.unlink()
	l.pushLocked(e)
	return e.value, true
}

// Remove drops the value of a key.
func (l *Cache[K, V]) Remove(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok {
		l.dropLocked(e)
	}
}

// Clear drops all values.
func (l *Cache[K, V]) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.entries)
	l.root.prev, l.root.next = &l.root, &l.root
	l.size = 0
}

// Put keeps v, which takes size bytes, unless it would take more than a quarter of the
// cache, or the key has a value. It drops what is too much, or idle.
func (l *Cache[K, V]) Put(key K, v V, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.entries[key]; ok || size > l.max/4 {
		return
	}
	e := &entry[K, V]{key: key, value: v, size: size}
	l.entries[key] = e
	l.pushLocked(e)
	l.size += size
	for oldest := l.root.prev; l.size > l.max || e.used.Sub(oldest.used) > idle; oldest = l.root.prev {
		l.dropLocked(oldest)
	}
}

func (l *Cache[K, V]) dropLocked(e *entry[K, V]) {
	e.unlink()
	delete(l.entries, e.key)
	l.size -= e.size
}

// pushLocked makes an entry the newest.
func (l *Cache[K, V]) pushLocked(e *entry[K, V]) {
	e.used = time.Now()
	e.prev, e.next = &l.root, l.root.next
	e.prev.next, e.next.prev = e, e
}

func (e *entry[K, V]) unlink() { e.prev.next, e.next.prev = e.next, e.prev }
