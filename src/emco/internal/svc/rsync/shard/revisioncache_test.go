package shard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// archive is a slow store of revisions that counts reads; the first ones may fail.
type archive struct {
	mu    sync.Mutex
	reads int
	fail  int
}

func (a *archive) read() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reads++; a.reads <= a.fail {
		return errors.New("etcd is away")
	}
	return nil
}

func (a *archive) DesiredRevision(_ context.Context, _ appcontext.HeadID, n int64) (appcontext.Revision, error) {
	time.Sleep(time.Second) // of the bubble's clock
	return appcontext.Revision{Number: n}, a.read()
}

func (a *archive) DesiredPlacements(context.Context, appcontext.HeadID, int64) ([]appcontext.Placement, error) {
	time.Sleep(time.Second)
	return []appcontext.Placement{{Cluster: "edge+c1", Apps: map[string]appcontext.Digest{"web": "b"}}}, a.read()
}

// However many shards ask what a revision places where, and what it changed, the process reads each of the two revisions once.
func TestShardsReadPlacementsOfARevisionOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		var lookups atomic.Int64 // of the shards of clusters
		d := NewRevisionCache(a, func(ctx context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]int, error) {
			lookups.Add(1)
			return inFirst(ctx, clusters)
		})
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if _, err := d.changes(t.Context(), "7", 1, 2); err != nil {
					t.Error(err)
				}
				on, err := d.placesOn(t.Context(), "7", 2, map[v2.ClusterKey]bool{"edge+c1": true, "edge+c2": true})
				if err != nil || len(on) != 1 || on["edge+c1"]["web"] != "b" {
					t.Errorf("got %v, %v", on, err)
				}
				if _, err := d.placements(t.Context(), "7", appcontext.Revision{Number: 2}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if a.reads != 2 || lookups.Load() != 2 {
			t.Errorf("%d reads of 2 revisions, and %d lookups of the clusters' shards, want one for the places and one for the changes", a.reads, lookups.Load())
		}
	})
}

func TestShardsReadRevisionsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		d := NewRevisionCache(a, inFirst)
		ask := func(n int) {
			t.Helper()
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					l, err := d.placements(t.Context(), "7", appcontext.Revision{Number: 1})
					if err != nil || !reflect.DeepEqual(l.bundles, map[v2.ClusterKey]map[string]appcontext.Digest{"edge+c1": {"web": "b"}}) || !slices.Equal(l.ofShard[0], []v2.ClusterKey{"edge+c1"}) {
						t.Errorf("got %+v, %v", l, err)
					}
					if rev, err := d.revision(t.Context(), "7", 1); err != nil || rev.Number != 1 {
						t.Errorf("got %+v, %v", rev, err)
					}
				})
			}
			all.Wait()
		}
		ask(16)
		ask(16)
		if a.reads != 2 {
			t.Errorf("%d reads, want one of each", a.reads)
		}
		time.Sleep(readLifetime) // clusters may have moved meanwhile
		ask(1)
		if a.reads != 4 {
			t.Errorf("%d reads, want both again after a while", a.reads)
		}
		if _, err := d.revision(t.Context(), "7", 2); err != nil || len(d.revisions.reads) != 2 {
			t.Errorf("%d revisions are kept, %v", len(d.revisions.reads), err)
		}
	})
}

func TestAFailedSharedReadIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{fail: 1}
		d := NewRevisionCache(a, inFirst)
		var all sync.WaitGroup
		failures := make(chan error, 4)
		for range 4 {
			all.Go(func() {
				_, err := d.revision(t.Context(), "7", 1)
				failures <- err
			})
		}
		all.Wait()
		close(failures)
		n := 0
		for err := range failures {
			if err != nil {
				n++
			}
		}
		if n != 1 || a.reads != 4 {
			t.Errorf("%d of 4 failed with %d reads, want only the first one to fail", n, a.reads)
		}
		if _, err := d.revision(t.Context(), "7", 1); err != nil {
			t.Error(err)
		}
	})
}

// fleetArchive has revisions of an app on two clusters of shard 0 and on many of shard 1.
type fleetArchive struct{ elsewhere int }

func (fleetArchive) DesiredRevision(_ context.Context, _ appcontext.HeadID, n int64) (appcontext.Revision, error) {
	return appcontext.Revision{Number: n, Apps: []appcontext.App{{Name: "web"}}}, nil
}

func (f fleetArchive) DesiredPlacements(_ context.Context, _ appcontext.HeadID, n int64) (out []appcontext.Placement, err error) {
	apps := map[string]appcontext.Digest{"web": appcontext.Digest(fmt.Sprint("bundle", n))}
	for i := range 2 + f.elsewhere {
		out = append(out, appcontext.Placement{Cluster: v2.NewClusterKey("edge", fmt.Sprintf("c%06d", i)), Apps: apps})
	}
	return out, nil
}

func (f fleetArchive) shards(_ context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]int, error) {
	out := map[v2.ClusterKey]int{}
	for _, c := range clusters {
		if c > "edge+c000001" {
			out[c] = 1
		}
	}
	return out, nil
}

// A shard looks at its own clusters of a revision, also at those that differ from the revision before, however many the other shards
// have.
func TestAShardLooksAtItsOwnClusters(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	s, _, _ := newShard(t, 0, inFirst)
	allocations := func(elsewhere int) (all, differing float64) {
		t.Helper()
		f := fleetArchive{elsewhere}
		r := &headReconciler{Shared: s.Shared, number: s.number, contexts: s.contexts, pairs: s.pairs}
		r.Revisions = NewRevisionCache(f, f.shards)
		apps := []appcontext.App{{Name: "web"}}
		all = testing.AllocsPerRun(10, func() {
			w := pair.Desired{Deployment: "7", Head: "7", Rev: 2, Apps: apps}
			if err := r.allPlaces(t.Context(), &w, appcontext.Revision{Number: 2}, false); err != nil || len(w.Places) != 2 || w.Elsewhere != nil {
				t.Fatalf("%d places, %d elsewhere, %v; want 2 and none", len(w.Places), len(w.Elsewhere), err)
			}
		})
		differing = testing.AllocsPerRun(10, func() {
			w := pair.Desired{Deployment: "7", Head: "7", Rev: 2, Apps: apps}
			if err := r.placesThatDiffer(t.Context(), &w, reconciled{rev: 1}, store.Changes{}); err != nil || len(w.Places) != 2 {
				t.Fatalf("%d places, %v; want 2", len(w.Places), err)
			}
		})
		return all, differing
	}
	fewAll, fewDiffering := allocations(10)
	manyAll, manyDiffering := allocations(10_000)
	if manyAll > fewAll+20 || manyDiffering > fewDiffering+20 {
		t.Errorf("%.0f and %.0f allocations with 10,000 clusters elsewhere, %.0f and %.0f with 10", manyAll, manyDiffering, fewAll, fewDiffering)
	}
}

// The shards of a process agree about which of them starts where revisions differ, although the clusters' routes change while they
// look: one of them starts, and not none.
func TestShardsAgreeWhoStartsWhereRevisionsDiffer(t *testing.T) {
	s, _, _ := newShard(t, 0, inFirst)
	lookups := 0
	revisions := NewRevisionCache(fleetArchive{}, func(_ context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]int, error) {
		out := map[v2.ClusterKey]int{}
		for _, c := range clusters {
			out[c] = min(lookups, 1) // at first the routes are those of shard 0
		}
		lookups++
		return out, nil
	})
	starts := map[int]int{}
	for _, number := range []int{1, 0} {
		r := &headReconciler{Shared: s.Shared, number: number, contexts: s.contexts, pairs: s.pairs}
		r.Revisions = revisions
		w := pair.Desired{Deployment: "7", Head: "7", Rev: 2, Apps: []appcontext.App{{Name: "web"}}}
		if err := r.placesThatDiffer(t.Context(), &w, reconciled{rev: 1}, store.Changes{}); err != nil {
			t.Fatal(err)
		}
		starts[number] = len(w.Places)
	}
	if starts[0] != 2 || starts[1] != 0 {
		t.Errorf("shard 0 starts on %d clusters and shard 1 on %d, want 2 and 0", starts[0], starts[1])
	}
}

// inFirst puts all clusters into the first shard.
func inFirst(_ context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]int, error) {
	out := map[v2.ClusterKey]int{}
	for _, c := range clusters {
		out[c] = 0
	}
	return out, nil
}
