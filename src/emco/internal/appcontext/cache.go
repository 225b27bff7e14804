package appcontext

import "sync"

// lru keeps the content that was used last, bounded by bytes. Content is named by its
// digest and never changes, so nothing is ever invalidated.
type lru[V any] struct {
	mu      sync.Mutex
	max     int
	size    int
	entries map[Digest]*entry[V]
	root    entry[V] // next is the newest, prev the oldest
}

type entry[V any] struct {
	prev, next *entry[V]
	digest     Digest
	value      V
	size       int
}

func newLRU[V any](maxBytes int) *lru[V] {
	l := &lru[V]{max: maxBytes, entries: map[Digest]*entry[V]{}}
	l.root.prev, l.root.next = &l.root, &l.root
	return l
}

func (l *lru[V]) get(d Digest) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[d]
	if !ok {
		return *new(V), false
	}
	l.unlink(e)
	l.push(e)
	return e.value, true
}

// put keeps v, which takes size bytes, unless it alone would take a quarter of the room.
func (l *lru[V]) put(d Digest, v V, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.entries[d]; ok || size > l.max/4 {
		return
	}
	e := &entry[V]{digest: d, value: v, size: size}
	l.entries[d] = e
	l.push(e)
	for l.size += size; l.size > l.max; {
		old := l.root.prev
		l.unlink(old)
		delete(l.entries, old.digest)
		l.size -= old.size
	}
}

func (l *lru[V]) unlink(e *entry[V]) { e.prev.next, e.next.prev = e.next, e.prev }

func (l *lru[V]) push(e *entry[V]) {
	e.prev, e.next = &l.root, l.root.next
	e.prev.next, e.next.prev = e, e
}
