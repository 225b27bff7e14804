package rsync

import "sync"

// remembered bounds the values of a generation of a memory.
const remembered = 64

// memory keeps values that are asked for again and again: the clusters of a class hold
// the same bundles, and go the same ways to them.
type memory[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V // what is asked for moves to the young generation
}

func (m *memory[K, V]) recall(k K) (V, bool) {
	m.mu.Lock()
	v, ok := m.young[k]
	if !ok {
		v, ok = m.old[k]
	}
	m.mu.Unlock()
	if ok {
		m.remember(k, v)
	}
	return v, ok
}

// remember keeps a value; when the young generation is full, the old one is forgotten.
func (m *memory[K, V]) remember(k K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.young[k]; there {
		return
	}
	if m.young == nil || len(m.young) >= remembered {
		m.old, m.young = m.young, map[K]V{}
	}
	m.young[k] = v
}
