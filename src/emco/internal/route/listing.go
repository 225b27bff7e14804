package route

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
	"unique"
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
	clusters map[v2.ClusterKey]listed
	bytes    int // that it takes, about
}

// listed is a registration of a listing. Most clusters of a fleet are registered alike and share what is known of them.
type listed struct {
	uid        string
	gitops     unique.Handle[v2.GitOps]
	kubeconfig []byte // sealed
	err        error  // why the document cannot be decoded
}

// recentListings finds the listings that lookups use, by provider, for other lookups: all shards list
// the same clusters at about the same time. A listing goes with the last lookup that uses it, or later: what is done for a fleet
// looks again and again. They are held only if forgetUnused is called from time to time.
type recentListings struct {
	mu   sync.Mutex                       // also held while clusters are listed, so that they are listed once
	of   map[string]weak.Pointer[listing] // guarded by mu
	held map[string]*listing              // those that were used lately, by provider; maxHeld bytes at most; guarded by mu
	news map[string]int                   // clusters that were written since listings were let go, by provider; guarded by mu
	huge map[string]bool                  // providers whose listing is too large to be held; guarded by mu
	used time.Time                        // when a listing was held last; zero: none is; guarded by mu
	ends bool                             // forgetUnused was called; guarded by mu
}

const (
	holdFor    = 10 * time.Minute // after the last use of any
	maxHeld    = 16 << 20         // bytes: clusters with kubeconfigs take some KiB each, others a few hundred bytes
	entryBytes = 200              // of a cluster, besides its kubeconfig; about
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
	changed := slices.DeleteFunc(clustersAmong(changes.Keys), func(c v2.ClusterKey) bool { return c.Provider() != provider })
	switch {
	case known == nil || changes.All:
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
	r.holdLocked(provider, fresh)
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
func (r *recentListings) holdLocked(provider string, l *listing) {
	if !r.ends {
		return
	}
	delete(r.held, provider)
	sum := l.bytes
	for _, other := range r.held {
		sum += other.bytes
	}
	if sum > maxHeld {
		clear(r.held)
	}
	if r.held == nil {
		r.held, r.huge = map[string]*listing{}, map[string]bool{}
	}
	if r.huge[provider] = l.bytes > maxHeld; r.huge[provider] {
		return
	}
	r.held[provider], r.used = l, time.Now()
}

// forgetUnused lets all listings go that are held, if none was used for holdFor.
func (r *recentListings) forgetUnused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = true
	if !r.used.IsZero() && time.Since(r.used) > holdFor {
		clear(r.held)
		clear(r.news)
		r.used = time.Time{}
	}
}

// ReadAhead reads the registrations of fleets that are being registered, so that the first deployment on them finds them in memory. It must
// be called with all changes of documents, in order, and from time to time without any: it also forgets what is no longer used. What it
// cannot read, the next lookup reads. Without ReadAhead, registrations are held only while a lookup uses them.
func (r *Resolver) ReadAhead(ctx context.Context, changes store.Changes) {
	r.listings.forgetUnused()
	for _, provider := range r.listings.grown(clustersAmong(changes.Keys)) {
		_, _ = r.listings.list(ctx, r.DB, provider)
	}
}

// grown notes clusters that were written, and returns their providers that have so many that they are listed. Those whose listing is too
// large to be held are left out.
func (r *recentListings) grown(written []v2.ClusterKey) (providers []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news == nil {
		r.news = map[string]int{}
	}
	touched := map[string]bool{}
	for _, c := range written {
		r.news[c.Provider()]++
		touched[c.Provider()] = true
	}
	for provider := range touched {
		if r.news[provider] >= listFrom && !r.huge[provider] {
			providers = append(providers, provider)
		}
	}
	return providers
}

// listAll reads all registrations of a provider.
func listAll(ctx context.Context, db *store.DB, provider string) (*listing, error) {
	l := &listing{clusters: map[v2.ClusterKey]listed{}}
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
	next := &listing{clusters: maps.Clone(l.clusters), bytes: l.bytes}
	for _, c := range changed {
		next.remove(c)
	}
	for doc, err := range db.GetEach(ctx, registrationKeys(changed)) {
		if err != nil {
			return nil, err
		}
		next.put(doc)
	}
	return next, nil
}

// put adds a registration to a listing that is being made.
func (l *listing) put(doc store.Doc) {
	if key, ok := v2.ClusterOf(string(doc.Key)); ok {
		r, err := decode(doc)
		l.clusters[key] = listed{uid: r.UID, gitops: unique.Make(r.GitOps), kubeconfig: r.kubeconfig, err: err}
		l.bytes += entryBytes + len(r.kubeconfig)
	}
}

// remove removes a registration from a listing that is being made.
func (l *listing) remove(cluster v2.ClusterKey) {
	if was, known := l.clusters[cluster]; known {
		l.bytes -= entryBytes + len(was.kubeconfig)
		delete(l.clusters, cluster)
	}
}

// ChangedClusters returns the clusters whose registrations have changed, in order and each once; all if any may have, or may be reached
// otherwise because a sync object has changed.
func ChangedClusters(changes store.Changes) (changed []v2.ClusterKey, all bool) {
	if changes.All || slices.ContainsFunc(changes.Keys, func(k store.Key) bool { _, ok := SyncObjectProvider(k); return ok }) {
		return nil, true
	}
	return clustersAmong(changes.Keys), false
}

// clustersAmong returns the clusters whose registrations are among keys, in order and each once.
func clustersAmong(keys []store.Key) (out []v2.ClusterKey) {
	for _, k := range keys {
		if c, ok := v2.ClusterOf(string(k)); ok {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// registrationKeys returns the keys of the documents of clusters.
func registrationKeys(clusters []v2.ClusterKey) (keys []store.Key) {
	for _, c := range clusters {
		keys = append(keys, store.Key(c.StoreKey()))
	}
	return keys
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
func (l *Lookup) prefetched(cluster v2.ClusterKey) (r Registration, known bool, err error) {
	if len(l.listed) == 0 || !cluster.Valid() {
		return r, false, nil
	}
	of := l.listed[cluster.Provider()]
	if of == nil {
		return r, false, nil
	}
	at, known := of.clusters[cluster]
	if known {
		r = Registration{UID: at.uid, GitOps: at.gitops.Value(), kubeconfig: at.kubeconfig}
	}
	return r, known, at.err
}
