package syncer

import (
	"sync"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// cacheBytes bounds what a Writer remembers.
const cacheBytes = 64 << 20

// contentKey identifies written content: the object's digest, and whether it was written
// as a definition that is kept.
type contentKey struct {
	digest manifest.Digest
	kept   bool
}

// contentCache caches recent content in two generations: content that is used moves to the
// young one; when that has half of the limit, the old one is dropped.
type contentCache struct {
	limit int

	mu         sync.Mutex
	young, old map[contentKey][]byte
	size       int // bytes in young
}

func newCache(limit int) contentCache {
	return contentCache{limit: limit, young: map[contentKey][]byte{}}
}

func (c *contentCache) get(k contentKey) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if content, ok := c.young[k]; ok {
		return content, true
	}
	content, ok := c.old[k]
	if ok {
		c.keep(k, content)
	}
	return content, ok
}

func (c *contentCache) put(k contentKey, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(k, content)
}

// keep adds content to the young generation. The caller holds mu.
func (c *contentCache) keep(k contentKey, content []byte) {
	if len(content) > c.limit/2 {
		return
	}
	if _, there := c.young[k]; there {
		return
	}
	if c.size+len(content) > c.limit/2 {
		c.old, c.young, c.size = c.young, map[contentKey][]byte{}, 0
	}
	c.young[k] = content
	c.size += len(content)
}
