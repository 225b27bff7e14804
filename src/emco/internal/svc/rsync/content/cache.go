package content

import "sync"

// generationSize bounds the values of one generation of a cache.
const generationSize = 64

// cache keeps values that are used often: the clusters of a class hold the same bundles and
// get to them by the same steps. It keeps the values used since the last generation but one.
type cache[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V // guarded by mu; a value that is used moves to the young generation
}

func (c *cache[K, V]) get(k K) (V, bool) {
	c.mu.Lock()
	v, ok := c.young[k]
	if !ok {
		v, ok = c.old[k]
	}
	c.mu.Unlock()
	if ok {
		c.put(k, v)
	}
	return v, ok
}

// put keeps a value. When the young generation is full, the old one is dropped.
func (c *cache[K, V]) put(k K, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.young[k]; there {
		return
	}
	if c.young == nil || len(c.young) >= generationSize {
		c.old, c.young = c.young, map[K]V{}
	}
	c.young[k] = v
}
