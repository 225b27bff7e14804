package content

import "sync"

// remembered bounds the values of a generation of a memory.
const generationSize = 64

// cache keeps values that are asked for again and again: the clusters of a class hold
// the same bundles, and go the same ways to them.
type cache[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V // what is asked for moves to the young generation
}

func (m *cache[K, V]) get(k K) (V, bool) {
	m.mu.Lock()
	v, ok := m.young[k]
	if !ok {
		v, ok = m.old[k]
	}
	m.mu.Unlock()
	if ok {
		m.put(k, v)
	}
	return v, ok
}

// put keeps a value; when the young generation is full, the old one is forgotten.
func (m *cache[K, V]) put(k K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.young[k]; there {
		return
	}
	if m.young == nil || len(m.young) >= generationSize {
		m.old, m.young = m.young, map[K]V{}
	}
	m.young[k] = v
}
