package syncer

import (
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// The bound of what a Writer remembers, and about what an object takes besides its content; in bytes.
const (
	cacheBytes = 64 << 20
	entryBytes = 200
)

// contentKey identifies written content: the object's digest, and whether it was written
// as a definition that is kept.
type contentKey struct {
	digest manifest.Digest
	kept   bool
}

// treeKey identifies the apps of a tree by where their objects are: content is never changed.
type treeKey []appKey

type appKey struct {
	name          string
	objects, crds *manifest.Object // the first ones
	counts        [2]int
}

func treeKeyOf(apps []App) treeKey {
	key := make(treeKey, len(apps))
	for i, a := range apps {
		key[i] = appKey{name: a.Name, counts: [2]int{len(a.Objects), len(a.CRDs)}}
		if len(a.Objects) > 0 {
			key[i].objects = &a.Objects[0]
		}
		if len(a.CRDs) > 0 {
			key[i].crds = &a.CRDs[0]
		}
	}
	return key
}

// maxTrees is how many trees a Writer and a guard remember: a delivery concerns few classes of clusters.
const maxTrees = 8

// treeCache remembers the trees that were used last.
type treeCache struct {
	mu     sync.Mutex
	recent []cachedTree // the newest last; guarded by mu
}

type cachedTree struct {
	key   treeKey
	files map[string][]byte
}

func (c *treeCache) get(key treeKey) (map[string][]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.recent) - 1; i >= 0; i-- {
		if t := c.recent[i]; slices.Equal(t.key, key) {
			c.recent = append(slices.Delete(c.recent, i, i+1), t)
			return t.files, true
		}
	}
	return nil, false
}

func (c *treeCache) put(key treeKey, files map[string][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) == maxTrees {
		c.recent = slices.Delete(c.recent, 0, 1)
	}
	c.recent = append(c.recent, cachedTree{key, files})
}
