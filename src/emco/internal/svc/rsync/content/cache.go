package content

import "sync"

// The bounds of one generation of a cache: its values, and their bytes, about. A larger value makes a
// generation of its own.
const (
	generationSize  = 64
	generationBytes = 16 << 20
)

// cache keeps values that are used often: the clusters of a class hold the same bundles and
// get to them by the same steps. It keeps the values used since the last generation but one.
type cache[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]sized[V] // guarded by mu; a value that is used moves to the young generation
	bytes      int            // of the young generation; guarded by mu
}

type sized[V any] struct {
	value V
	bytes int
}

func (c *cache[K, V]) get(k K) (V, bool) {
	c.mu.Lock()
	v, ok := c.young[k]
	if !ok {
		v, ok = c.old[k]
	}
	c.mu.Unlock()
	if ok {
		c.put(k, v.value, v.bytes)
	}
	return v.value, ok
}

// put keeps a value of about so many bytes. When the young generation is full, the old one is dropped.
func (c *cache[K, V]) put(k K, v V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.young[k]; there {
		return
	}
	if c.young == nil || len(c.young) >= generationSize || len(c.young) > 0 && c.bytes+bytes > generationBytes {
		c.old, c.young, c.bytes = c.young, map[K]sized[V]{}, 0
	}
	c.young[k] = sized[V]{v, bytes}
	c.bytes += bytes
}
