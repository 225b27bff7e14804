package inventory

import (
	"context"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// maxKeyValueBytes bounds the key-value pairs in memory.
const maxKeyValueBytes = 64 << 20

// cachedKeyValues are the key-value pairs of clusters that were asked for and have not changed since.
type cachedKeyValues struct {
	of   map[v2.ClusterKey]map[string]string
	size int // bytes of keys and values that were put, an upper bound
}

func newCachedKeyValues() cachedKeyValues {
	return cachedKeyValues{of: map[v2.ClusterKey]map[string]string{}}
}

// forget drops the key-value pairs that a changed document belongs to.
func (c *cachedKeyValues) forget(k store.Key) {
	cluster, _, _ := strings.Cut(string(k), "/kv-pairs/")
	if key, ok := v2.ClusterOf(cluster); ok {
		delete(c.of, key)
	}
}

func (c *cachedKeyValues) put(cluster v2.ClusterKey, all map[string]string) {
	for key, value := range all {
		c.size += len(key) + len(value)
	}
	if c.size > maxKeyValueBytes {
		*c = newCachedKeyValues()
	}
	c.of[cluster] = all
}

// KeyValues returns the key-value pairs of a cluster, from all its documents. Of a key that stands
// several times the first counts, in order of the documents' names. A change is seen after the
// next call of Fleet. The map is shared and must not be changed.
func (i *Inventory) KeyValues(ctx context.Context, cluster v2.ClusterKey) (map[string]string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.keyValues.of[cluster]; ok {
		return known, nil
	}
	out := map[string]string{}
	for item, err := range store.All[v2.KV](ctx, i.db, store.Key(cluster.StoreKey())+"/kv-pairs", store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		for key, value := range item.Value.Spec.Merged() {
			if _, ok := out[key]; !ok {
				out[key] = value
			}
		}
	}
	i.keyValues.put(cluster, out)
	return out, nil
}
