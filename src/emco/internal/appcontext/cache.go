package appcontext

import "sync"

// caches keep what was used last. What a name stands for never changes, so nothing is ever
// invalidated.
type caches struct {
	blobs      *byteLRU[Digest, []byte]
	bundles    *byteLRU[Digest, Bundle]
	placements *byteLRU[string, []Placement] // by the prefix of their keys
}

func newCaches(bytes int) *caches {
	return &caches{
		blobs:      newByteLRU[Digest, []byte](bytes / 2),
		bundles:    newByteLRU[Digest, Bundle](bytes / 4),
		placements: newByteLRU[string, []Placement](bytes / 4),
	}
}

// byteLRU is a least-recently-used cache that is bounded by the bytes of its values: a
// bundle of one object and one of 50,000 differ by megabytes, and libraries bound numbers
// of entries.
type byteLRU[K ~string, V any] struct {
	max int

	mu      sync.Mutex
	size    int                   // guarded by mu
	entries map[K]*lruEntry[K, V] // guarded by mu
	root    lruEntry[K, V]        // of the ring: next is the newest, prev the oldest; guarded by mu
}

type lruEntry[K ~string, V any] struct {
	prev, next *lruEntry[K, V]
	key        K
	value      V
	size       int
}

func newByteLRU[K ~string, V any](maxBytes int) *byteLRU[K, V] {
	l := &byteLRU[K, V]{max: maxBytes, entries: map[K]*lruEntry[K, V]{}}
	l.root.prev, l.root.next = &l.root, &l.root
	return l
}

func (l *byteLRU[K, V]) get(key K) (V, bool) {
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

// put keeps v, which takes size bytes, unless it would take more than a quarter of the
// cache.
func (l *byteLRU[K, V]) put(key K, v V, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.entries[key]; ok || size > l.max/4 {
		return
	}
	e := &lruEntry[K, V]{key: key, value: v, size: size}
	l.entries[key] = e
	l.pushLocked(e)
	for l.size += size; l.size > l.max; {
		oldest := l.root.prev
		oldest.unlink()
		delete(l.entries, oldest.key)
		l.size -= oldest.size
	}
}

func (l *byteLRU[K, V]) pushLocked(e *lruEntry[K, V]) {
	e.prev, e.next = &l.root, l.root.next
	e.prev.next, e.next.prev = e, e
}

func (e *lruEntry[K, V]) unlink() { e.prev.next, e.next.prev = e.next, e.prev }
