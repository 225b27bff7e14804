package inventory

import (
	"context"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// maxPairBytes bounds the key-value pairs in memory.
const maxPairBytes = 64 << 20

// cachedPairs are the key-value pairs of clusters that were asked for and have not changed since.
type cachedPairs struct {
	of   map[v2.ClusterKey]map[string]string
	size int // bytes of keys and values that were put, an upper bound
}

func newCachedPairs() cachedPairs {
	return cachedPairs{of: map[v2.ClusterKey]map[string]string{}}
}

// forget drops the pairs that a changed document belongs to.
func (p *cachedPairs) forget(k store.Key) {
	cluster, _, _ := strings.Cut(string(k), "/kv-pairs/")
	if key, ok := v2.ClusterOf(cluster); ok {
		delete(p.of, key)
	}
}

func (p *cachedPairs) put(cluster v2.ClusterKey, pairs map[string]string) {
	for key, value := range pairs {
		p.size += len(key) + len(value)
	}
	if p.size > maxPairBytes {
		*p = newCachedPairs()
	}
	p.of[cluster] = pairs
}

// Pairs returns the key-value pairs of a cluster, from all its documents. Of a key that stands
// several times the first counts, in order of the documents' names. A change is seen after the
// next call of Fleet. The map is shared and must not be changed.
func (i *Inventory) Pairs(ctx context.Context, cluster v2.ClusterKey) (map[string]string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.pairs.of[cluster]; ok {
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
	i.pairs.put(cluster, out)
	return out, nil
}
