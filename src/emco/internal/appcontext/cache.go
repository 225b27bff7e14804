package appcontext

import "sync"

// lru keeps what was used last, bounded by bytes. What a name stands for never changes, as
// content by its digest does not, so nothing is ever invalidated.
type lru[K ~string, V any] struct {
	mu      sync.Mutex
	max     int
	size    int
	entries map[K]*entry[K, V]
	root    entry[K, V] // next is the newest, prev the oldest
}

type entry[K ~string, V any] struct {
	prev, next *entry[K, V]
	name       K
	value      V
	size       int
}

func newLRU[K ~string, V any](maxBytes int) *lru[K, V] {
	l := &lru[K, V]{max: maxBytes, entries: map[K]*entry[K, V]{}}
	l.root.prev, l.root.next = &l.root, &l.root
	return l
}

func (l *lru[K, V]) get(name K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[name]
	if !ok {
		return *new(V), false
	}
	l.unlink(e)
	l.push(e)
	return e.value, true
}

// put keeps v, which takes size bytes, unless it alone would take a quarter of the room.
func (l *lru[K, V]) put(name K, v V, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.entries[name]; ok || size > l.max/4 {
		return
	}
	e := &entry[K, V]{name: name, value: v, size: size}
	l.entries[name] = e
	l.push(e)
	for l.size += size; l.size > l.max; {
		old := l.root.prev
		l.unlink(old)
		delete(l.entries, old.name)
		l.size -= old.size
	}
}

func (l *lru[K, V]) unlink(e *entry[K, V]) { e.prev.next, e.next.prev = e.next, e.prev }

func (l *lru[K, V]) push(e *entry[K, V]) {
	e.prev, e.next = &l.root, l.root.next
	e.prev.next, e.next.prev = e, e
}
