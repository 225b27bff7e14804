package route

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/emco-orchestrator/emco/src/api/errs"
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
// the same clusters at about the same time. A listing goes with the last lookup that uses it, or later: the steps of one installation
// look one after the other.
type recentListings struct {
	mu   sync.Mutex // also held while clusters are listed, so that they are listed once
	of   map[string]weak.Pointer[listing]
	held *listing    // the one that was used last, for a while; guarded by mu
	drop *time.Timer // ends that; guarded by mu
}

const (
	holdFor = 10 * time.Second
	maxHeld = 5000 // clusters of a listing that is held: some ten MiB
)

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
	fresh := known
	changed := clustersOf(changes.Keys, provider)
	switch {
	case known == nil || changes.All || len(changed) >= listFrom:
		fresh, err = listAll(ctx, db, provider)
	case len(changed) > 0:
		fresh, err = known.with(ctx, db, changed)
	}
	if err != nil {
		return nil, err
	}
	if fresh != known {
		fresh.mark = changes.Mark
		r.rememberLocked(provider, fresh)
	}
	r.holdLocked(fresh)
	return fresh, nil
}

func (r *recentListings) rememberLocked(provider string, l *listing) {
	if r.of == nil {
		r.of = map[string]weak.Pointer[listing]{}
	}
	for name, l := range r.of {
		if l.Value() == nil {
			delete(r.of, name)
		}
	}
	r.of[provider] = weak.Make(l)
}

// holdLocked keeps a listing although no lookup may use it, unless it is large.
func (r *recentListings) holdLocked(l *listing) {
	if len(l.clusters) > maxHeld {
		return
	}
	r.held = l
	if r.drop == nil {
		r.drop = time.AfterFunc(holdFor, r.letGo)
	}
	r.drop.Reset(holdFor)
}

func (r *recentListings) letGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = nil
}

// listAll reads all registrations of a provider.
func listAll(ctx context.Context, db *store.DB, provider string) (*listing, error) {
	l := &listing{clusters: map[v2.ClusterKey]registration{}}
	for doc, err := range db.List(ctx, clustersKey(provider), store.Query{Depth: 1}) {
		if err != nil {
			return nil, err
		}
		l.put(doc)
	}
	return l, nil
}

// with returns a listing with the registrations of some clusters read again.
func (l *listing) with(ctx context.Context, db *store.DB, changed []v2.ClusterKey) (*listing, error) {
	next := &listing{clusters: maps.Clone(l.clusters)}
	for _, c := range changed {
		doc, err := db.Get(ctx, store.Key(c.StoreKey()))
		switch {
		case errs.Is(err, errs.NotFound):
			delete(next.clusters, c)
		case err != nil:
			return nil, err
		default:
			next.put(doc)
		}
	}
	return next, nil
}

// put adds a registration to a listing that is being made.
func (l *listing) put(doc store.Doc) {
	if key, ok := v2.ClusterOf(string(doc.Key)); ok {
		c, err := store.Decode[v2.Cluster](doc)
		l.clusters[key] = registration{doc, c, err}
	}
}

// clustersOf returns the clusters of a provider whose registrations are among keys, each once.
func clustersOf(keys []store.Key, provider string) (out []v2.ClusterKey) {
	for _, k := range keys {
		if c, ok := v2.ClusterOf(string(k)); ok && c.Provider() == provider {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Prefetch reads the registrations of many clusters together. One that it cannot read is
// read on its own later.
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
