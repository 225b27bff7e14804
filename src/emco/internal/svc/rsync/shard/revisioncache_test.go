package shard

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
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

func (a *archive) Revision(_ context.Context, _ appcontext.HeadID, n int64) (appcontext.Revision, error) {
	time.Sleep(time.Second) // of the bubble's clock
	return appcontext.Revision{Number: n}, a.read()
}

func (a *archive) Placements(context.Context, appcontext.HeadID, int64) ([]appcontext.Placement, error) {
	time.Sleep(time.Second)
	return []appcontext.Placement{{Cluster: "edge+c1", Apps: map[string]appcontext.Digest{"web": "b"}}}, a.read()
}

// However many shards ask what a revision places where, and what it changed, the process reads each of the two revisions once.
func TestShardsReadPlacementsOfARevisionOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		d := NewRevisionCache(a, inFirst)
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if _, err := d.changedClusters(t.Context(), "7", 1, 2); err != nil {
					t.Error(err)
				}
				on, err := d.placesOn(t.Context(), "7", 2, map[v2.ClusterKey]bool{"edge+c1": true, "edge+c2": true})
				if err != nil || len(on) != 1 || on["edge+c1"]["web"] != "b" {
					t.Errorf("got %v, %v", on, err)
				}
				if _, err := d.placements(t.Context(), "7", 2); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if a.reads != 2 {
			t.Errorf("%d reads of 2 revisions", a.reads)
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
					l, err := d.placements(t.Context(), "7", 1)
					if err != nil || !reflect.DeepEqual(l.bundles, map[v2.ClusterKey]map[string]appcontext.Digest{"edge+c1": {"web": "b"}}) || l.shards["edge+c1"] != 0 {
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

// inFirst puts all clusters into the first shard.
func inFirst(_ context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]int, error) {
	out := map[v2.ClusterKey]int{}
	for _, c := range clusters {
		out[c] = 0
	}
	return out, nil
}
