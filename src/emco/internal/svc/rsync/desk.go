package rsync

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// revisionStore is where revisions are read.
type revisionStore interface {
	Revision(ctx context.Context, uid string, n int64) (appcontext.Revision, error)
	Placements(ctx context.Context, uid string, n int64) ([]appcontext.Placement, error)
}

// desk reads revisions for all shards of a process: each once although all ask for it at
// about the same time. So they also agree on which cluster is whose.
type desk struct {
	store  revisionStore
	shards func(ctx context.Context, clusters []string) (map[string]int, error)

	revisions *readings[appcontext.Revision]
	placed    *readings[layout]
	differing *readings[[]string]
}

// layout is where a revision wants what. Nothing in it may be changed.
type layout struct {
	bundles map[string]map[string]appcontext.Digest // by cluster and app
	shards  map[string]int                          // by cluster: whose it is, if nobody has begun there
}

func newDesk(store revisionStore, shards func(context.Context, []string) (map[string]int, error)) *desk {
	return &desk{
		store: store, shards: shards,
		revisions: newReadings(func(appcontext.Revision) int { return 1 }),
		placed:    newReadings(func(l layout) int { return len(l.bundles) }),
		differing: newReadings(func(clusters []string) int { return len(clusters) }),
	}
}

// revision returns a revision of a head; NotFound if it is not there.
func (d *desk) revision(ctx context.Context, head string, n int64) (appcontext.Revision, error) {
	return d.revisions.read(ctx, revisionKey{head: head, rev: n}, func() (appcontext.Revision, error) {
		return d.store.Revision(ctx, head, n)
	})
}

// layout returns where a revision wants what; NotFound if it is not there.
func (d *desk) layout(ctx context.Context, head string, n int64) (layout, error) {
	return d.placed.read(ctx, revisionKey{head: head, rev: n}, func() (layout, error) {
		places, err := d.store.Placements(ctx, head, n)
		if err != nil {
			return layout{}, err
		}
		out, clusters := layout{bundles: make(map[string]map[string]appcontext.Digest, len(places))}, make([]string, 0, len(places))
		for _, p := range places {
			out.bundles[p.Cluster] = p.Apps
			clusters = append(clusters, p.Cluster)
		}
		out.shards, err = d.shards(ctx, clusters)
		return out, err
	})
}

// changes returns the clusters on which a revision wants something else than an earlier one
// of the same head, in order; NotFound if one of them is not there.
func (d *desk) changes(ctx context.Context, head string, from, to int64) ([]string, error) {
	return d.differing.read(ctx, revisionKey{head, to, from}, func() ([]string, error) {
		before, err := d.store.Placements(ctx, head, from)
		if err != nil {
			return nil, err
		}
		after, err := d.store.Placements(ctx, head, to)
		return differing(before, after), err
	})
}

// differing returns the clusters of which two lists of placements say different things.
// What is shared by many is compared once.
func differing(before, after []appcontext.Placement) (out []string) {
	same := map[[2]uintptr]bool{}
	for was, is := range appcontext.Zip(before, after) {
		k := [2]uintptr{was.Set(), is.Set()}
		equal, known := same[k]
		if !known {
			equal = maps.Equal(was.Apps, is.Apps)
			same[k] = equal
		}
		if !equal {
			out = append(out, is.Cluster)
		}
	}
	return out
}

// on returns what a revision wants on each of the given clusters, if anything.
func (d *desk) on(ctx context.Context, head string, n int64, clusters map[string]bool) (map[string]map[string]appcontext.Digest, error) {
	places, err := d.store.Placements(ctx, head, n)
	out := map[string]map[string]appcontext.Digest{}
	for c := range clusters {
		at, found := slices.BinarySearchFunc(places, c, func(p appcontext.Placement, c string) int { return cmp.Compare(p.Cluster, c) })
		if found {
			out[c] = places[at].Apps
		}
	}
	return out, err
}

// readings are what was read lately, of some sort.
type readings[V any] struct {
	size func(V) int
	now  func() time.Time

	mu  sync.Mutex
	all map[revisionKey]*oneReading[V]
}

type revisionKey struct {
	head string
	rev  int64
	from int64 // another revision, if it is about what differs from that one
}

type oneReading[V any] struct {
	at    time.Time
	done  chan struct{} // closed when it is over
	value V
	err   error
}

const (
	fresh = 30 * time.Second // how long a reading serves those who come later
	space = 200_000          // clusters, or revisions, that are kept; about
)

func newReadings[V any](size func(V) int) *readings[V] {
	return &readings[V]{size: size, now: time.Now, all: map[revisionKey]*oneReading[V]{}}
}

// read returns what somebody else has read lately, or is about to; or else reads.
func (r *readings[V]) read(ctx context.Context, k revisionKey, fetch func() (V, error)) (V, error) {
	one, mine := r.join(k)
	if mine {
		one.value, one.err = fetch()
		r.finish(k, one)
		return one.value, one.err
	}
	select {
	case <-one.done:
	case <-ctx.Done():
		var none V
		return none, errs.E(errs.Unavailable, "read", "deployment "+k.head, ctx.Err())
	}
	if one.err != nil { // whoever read it may have been stopped
		return fetch()
	}
	return one.value, nil
}

// join returns the reading of a revision, and whether the caller has to do it.
func (r *readings[V]) join(k revisionKey) (one *oneReading[V], mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one = r.all[k]; one != nil && r.now().Sub(one.at) < fresh {
		return one, false
	}
	one = &oneReading[V]{at: r.now(), done: make(chan struct{})}
	r.all[k] = one
	return one, true
}

// finish hands a reading out, and forgets those that failed, are old, or are too many.
func (r *readings[V]) finish(k revisionKey, one *oneReading[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(one.done)
	if one.err != nil && r.all[k] == one {
		delete(r.all, k)
	}
	size := 0
	for other, o := range r.all {
		select {
		case <-o.done:
		default:
			continue // it is being read
		}
		if size += r.size(o.value); size > space || r.now().Sub(o.at) >= fresh {
			delete(r.all, other)
		}
	}
}
