package shard

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// revisionStore is where revisions are stored.
type revisionStore interface {
	DesiredRevision(ctx context.Context, id appcontext.HeadID, n int64) (appcontext.Revision, error)
	DesiredPlacements(ctx context.Context, id appcontext.HeadID, n int64) ([]appcontext.Placement, error)
}

// RevisionCache reads revisions for all shards of a process: each once, although all
// shards need it at about the same time. This way they also agree about which shard starts
// on which cluster.
type RevisionCache struct {
	store  revisionStore
	shards func(ctx context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]int, error)

	revisions *sharedReads[appcontext.Revision]
	lists     *sharedReads[[]appcontext.Placement]
	placed    *sharedReads[placements]
	changed   *sharedReads[changes]
}

// placements is what a revision wants on which clusters. It is shared: nothing in it may
// be changed.
type placements struct {
	bundles map[v2.ClusterKey]map[string]appcontext.Digest // by cluster and app
	ofShard map[int][]v2.ClusterKey                        // by shard: the clusters it must start on, unless another shard has started there

	labelled map[string]map[v2.ClusterKey]bool // by label that waves name: the clusters that have it; nil: waves name none
}

// changes is where two revisions want different things. It is shared: nothing in it may be changed.
type changes struct {
	clusters map[v2.ClusterKey]bool
	ofShard  map[int][]v2.ClusterKey // as in placements
}

// NewRevisionCache returns an empty cache. shards returns the shards of clusters by their
// routes.
func NewRevisionCache(store revisionStore, shards func(context.Context, []v2.ClusterKey) (map[v2.ClusterKey]int, error)) *RevisionCache {
	return &RevisionCache{
		store: store, shards: shards,
		revisions: newSharedReads(func(appcontext.Revision) int { return 1 }),
		lists:     newSharedReads(func(places []appcontext.Placement) int { return len(places) }),
		placed:    newSharedReads(func(p placements) int { return len(p.bundles) }),
		changed:   newSharedReads(func(c changes) int { return len(c.clusters) }),
	}
}

// revision returns a revision of a head, or NotFound.
func (c *RevisionCache) revision(ctx context.Context, head appcontext.HeadID, n int64) (appcontext.Revision, error) {
	return c.revisions.get(ctx, revisionKey{head: head, rev: n}, func() (appcontext.Revision, error) {
		return c.store.DesiredRevision(ctx, head, n)
	})
}

// list returns where a revision places its apps, or NotFound.
func (c *RevisionCache) list(ctx context.Context, head appcontext.HeadID, n int64) ([]appcontext.Placement, error) {
	return c.lists.get(ctx, revisionKey{head: head, rev: n}, func() ([]appcontext.Placement, error) {
		return c.store.DesiredPlacements(ctx, head, n)
	})
}

// placements returns what a revision wants on which clusters, or NotFound.
func (c *RevisionCache) placements(ctx context.Context, head appcontext.HeadID, rev appcontext.Revision) (placements, error) {
	return c.placed.get(ctx, revisionKey{head: head, rev: rev.Number}, func() (placements, error) {
		places, err := c.list(ctx, head, rev.Number)
		if err != nil {
			return placements{}, err
		}
		out, clusters := placements{bundles: make(map[v2.ClusterKey]map[string]appcontext.Digest, len(places)), labelled: labelled(rev, places)}, make([]v2.ClusterKey, 0, len(places))
		for _, p := range places {
			out.bundles[p.Cluster] = p.Apps
			clusters = append(clusters, p.Cluster)
		}
		out.ofShard, err = c.byShard(ctx, clusters)
		return out, err
	})
}

// labelled returns the clusters of a revision by the labels that its waves name; nil if they name none.
func labelled(rev appcontext.Revision, places []appcontext.Placement) map[string]map[v2.ClusterKey]bool {
	if len(rev.Labelled) == 0 {
		return nil
	}
	out := map[string]map[v2.ClusterKey]bool{}
	for label, members := range rev.Labelled {
		out[label] = map[v2.ClusterKey]bool{}
		for i, p := range places {
			if members.Has(i) {
				out[label][p.Cluster] = true
			}
		}
	}
	return out
}

// byShard returns the clusters by the shards of their routes.
func (c *RevisionCache) byShard(ctx context.Context, clusters []v2.ClusterKey) (map[int][]v2.ClusterKey, error) {
	shards, err := c.shards(ctx, clusters)
	out := map[int][]v2.ClusterKey{}
	for _, cluster := range clusters {
		n := shards[cluster]
		out[n] = append(out[n], cluster)
	}
	return out, err
}

// changes returns where two revisions of a head want different things; NotFound if one of the revisions is gone.
func (c *RevisionCache) changes(ctx context.Context, head appcontext.HeadID, from, to int64) (changes, error) {
	return c.changed.get(ctx, revisionKey{head, to, from}, func() (changes, error) {
		before, err := c.list(ctx, head, from)
		if err != nil {
			return changes{}, err
		}
		after, err := c.list(ctx, head, to)
		if err != nil {
			return changes{}, err
		}
		clusters := changedClusters(before, after)
		out := changes{clusters: make(map[v2.ClusterKey]bool, len(clusters))}
		for _, cluster := range clusters {
			out.clusters[cluster] = true
		}
		out.ofShard, err = c.byShard(ctx, clusters)
		return out, err
	})
}

// changedClusters returns the clusters on which two lists of placements differ. Sets of
// apps that many clusters share are compared once.
func changedClusters(before, after []appcontext.Placement) (out []v2.ClusterKey) {
	compared := map[[2]uintptr]bool{}
	for was, is := range appcontext.Zip(before, after) {
		k := [2]uintptr{was.SetID(), is.SetID()}
		equal, known := compared[k]
		if !known {
			equal = maps.Equal(was.Apps, is.Apps)
			compared[k] = equal
		}
		if !equal {
			out = append(out, is.Cluster)
		}
	}
	return out
}

// placesOn returns what a revision wants on each of the given clusters, if anything.
func (c *RevisionCache) placesOn(ctx context.Context, head appcontext.HeadID, n int64, clusters map[v2.ClusterKey]bool) (map[v2.ClusterKey]map[string]appcontext.Digest, error) {
	places, err := c.list(ctx, head, n)
	out := map[v2.ClusterKey]map[string]appcontext.Digest{}
	for cluster := range clusters {
		at, found := slices.BinarySearchFunc(places, cluster, func(p appcontext.Placement, c v2.ClusterKey) int { return cmp.Compare(p.Cluster, c) })
		if found {
			out[cluster] = places[at].Apps
		}
	}
	return out, err
}

const (
	readLifetime = 30 * time.Second // how long a read serves those who come later
	maxCached    = 200_000          // clusters, or revisions, that are kept; about
)

// sharedReads does each read once for all who need it at about the same time.
type sharedReads[V any] struct {
	size func(V) int
	now  func() time.Time

	mu    sync.Mutex
	reads map[revisionKey]*sharedRead[V] // guarded by mu
}

type revisionKey struct {
	head appcontext.HeadID
	rev  int64
	from int64 // another revision, if the read compares the two
}

// sharedRead is one read. Its value and error are set before done is closed.
type sharedRead[V any] struct {
	at    time.Time
	done  chan struct{}
	value V
	err   error
}

func newSharedReads[V any](size func(V) int) *sharedReads[V] {
	return &sharedReads[V]{size: size, now: time.Now, reads: map[revisionKey]*sharedRead[V]{}}
}

// get returns what another caller has read lately, or is reading, or else reads. If the
// other caller's read fails, it reads too: that caller may have been stopped.
func (s *sharedReads[V]) get(ctx context.Context, k revisionKey, fetch func() (V, error)) (V, error) {
	r, own := s.join(k)
	if own {
		r.value, r.err = fetch()
		s.finish(k, r)
		return r.value, r.err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		var none V
		return none, errs.E(errs.Unavailable, "read", "deployment "+string(k.head), ctx.Err())
	}
	if r.err != nil {
		return fetch()
	}
	return r.value, nil
}

// join returns the read for a key, and whether the caller must do it.
func (s *sharedReads[V]) join(k revisionKey) (r *sharedRead[V], own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.reads[k]; r != nil && s.now().Sub(r.at) < readLifetime {
		return r, false
	}
	r = &sharedRead[V]{at: s.now(), done: make(chan struct{})}
	s.reads[k] = r
	return r, true
}

// finish publishes a read, and drops reads that failed, are old, or are too many.
func (s *sharedReads[V]) finish(k revisionKey, r *sharedRead[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(r.done)
	if r.err != nil && s.reads[k] == r {
		delete(s.reads, k)
	}
	size := 0
	for other, o := range s.reads {
		select {
		case <-o.done:
		default:
			continue // it is in progress
		}
		if size += s.size(o.value); size > maxCached || s.now().Sub(o.at) >= readLifetime {
			delete(s.reads, other)
		}
	}
}
