package route

import (
	"context"
	"iter"
	"sync"
	"weak"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// listFrom is how many clusters of one provider are listed instead of read one by one.
// Listing is faster from about here on, unless the provider has many more clusters.
const listFrom = 500

// listing is the registrations of one provider at a mark of the document store. It does not change.
type listing struct {
	mark     int64
	clusters map[v2.ClusterKey]registration
}

// registration is a cluster's document. err is why it cannot be decoded.
type registration struct {
	doc     store.Doc
	cluster v2.Cluster
	err     error
}

// recentListings finds the listings that lookups use, by provider, for other lookups: all shards list
// the same clusters at about the same time. A listing goes with the last lookup that uses it.
type recentListings struct {
	mu sync.Mutex // also held while clusters are listed, so that they are listed once
	of map[string]weak.Pointer[listing]
}

// list returns the registrations of a provider now, with all writes from before the call.
func (r *recentListings) list(ctx context.Context, db *store.DB, provider string) (*listing, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.of[provider].Value()
	mark := int64(0)
	if known != nil {
		mark = known.mark
	}
	changes, err := db.Changes(ctx, mark) // before the documents are read
	if err != nil {
		return nil, err
	}
	if known != nil && !changes.All && !concern(changes.Keys, provider) {
		return known, nil
	}
	fresh := &listing{mark: changes.Mark, clusters: map[v2.ClusterKey]registration{}}
	for doc, err := range db.List(ctx, clustersKey(provider), store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		if key, ok := v2.ClusterOf(string(doc.Key)); ok {
			c, err := store.Decode[v2.Cluster](doc)
			fresh.clusters[key] = registration{doc, c, err}
		}
	}
	if r.of == nil {
		r.of = map[string]weak.Pointer[listing]{}
	}
	for name, l := range r.of {
		if l.Value() == nil {
			delete(r.of, name)
		}
	}
	r.of[provider] = weak.Make(fresh)
	return fresh, nil
}

// concern reports whether a key is of a cluster's registration at a provider.
func concern(keys []store.Key, provider string) bool {
	for _, k := range keys {
		if c, ok := v2.ClusterOf(string(k)); ok && c.Provider() == provider {
			return true
		}
	}
	return false
}

// Prefetch reads the registrations of many clusters together. One that it cannot read is
// read by itself later.
func (l *Lookup) Prefetch(ctx context.Context, clusters iter.Seq[v2.ClusterKey]) {
	if l.known.Away() {
		return
	}
	count := map[string]int{}
	for c := range clusters {
		if c.Valid() {
			count[c.Provider()]++
		}
	}
	for provider, n := range count {
		if n < listFrom {
			continue
		}
		if listed, err := l.listings.list(ctx, l.DB, provider); err == nil {
			l.listed[provider] = listed
		}
	}
}

// prefetched returns the registration of a cluster, if Prefetch has read it.
func (l *Lookup) prefetched(cluster v2.ClusterKey) (registration, bool) {
	if len(l.listed) == 0 || !cluster.Valid() {
		return registration{}, false
	}
	of := l.listed[cluster.Provider()]
	if of == nil {
		return registration{}, false
	}
	r, known := of.clusters[cluster]
	return r, known
}
