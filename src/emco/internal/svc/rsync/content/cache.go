package content

import "sync"

// generationSize bounds the values of one generation of a cache.
const generationSize = 64

// cache keeps values that are used often: the clusters of a class hold the same bundles and
// get to them by the same steps. It keeps the values used since the last generation but one.
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

// put keeps a value. When the young generation is full, the old one is dropped.
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
