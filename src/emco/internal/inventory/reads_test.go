package inventory_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/cloud"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// An inventory that looked once lists no documents again: it reads what was written together, however much that is.
func TestAFleetThatIsRegisteredIsNotListed(t *testing.T) {
	t.Parallel()
	driver, blobs := resourcetest.Driver(t)
	reads := &resourcetest.Reads{Driver: driver}
	db := store.New(reads, blobs, seal.New(seal.NewKey()))
	i := inventory.New(db, cloud.New)
	resourcetest.Put(t, db, "cluster-providers/edge", v2.Named{}, "")
	look := func(clusters int, batches, read int64) {
		t.Helper()
		reads.Got.Store(0)
		reads.Batches.Store(0)
		fleet, err := i.Fleet(t.Context())
		if err != nil || len(fleet.Clusters()) != clusters {
			t.Errorf("%d clusters, %v, want %d", len(fleet.Clusters()), err, clusters)
		}
		if b, n := reads.Batches.Load(), reads.Got.Load(); b != batches || n != read {
			t.Errorf("%d documents were read in %d batches, want %d in %d", n, b, read, batches)
		}
	}
	register := func(n int) {
		t.Helper()
		resourcetest.Put(t, db, store.Key(fmt.Sprint("cluster-providers/edge/clusters/c", n)), v2.Cluster{}, "")
	}
	look(0, 0, 0)
	reads.Listed.Store(0)
	for n := range 200 {
		register(n)
	}
	look(200, 1, 200)
	register(200)
	look(201, 1, 1)
	look(201, 0, 0)
	if n := reads.Listed.Load(); n > 0 {
		t.Errorf("%d documents were listed", n)
	}
}

// While an inventory is followed, a request reads only what was written in the last seconds.
func TestARequestFindsLittleToReadInAFollowedInventory(t *testing.T) {
	t.Parallel()
	driver, blobs := resourcetest.Driver(t)
	reads := &resourcetest.Reads{Driver: driver}
	db := store.New(reads, blobs, seal.New(seal.NewKey()))
	register := func(from, to int) {
		t.Helper()
		for n := range to - from {
			resourcetest.Put(t, db, store.Key(fmt.Sprint("cluster-providers/edge/clusters/c", from+n)), v2.Cluster{}, "")
		}
	}
	resourcetest.Put(t, db, "cluster-providers/edge", v2.Named{}, "")
	register(0, 20)
	synctest.Test(t, func(t *testing.T) {
		i := inventory.New(db, cloud.New)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { i.Follow(ctx); close(done) }()
		look := func(clusters int, read int64) {
			t.Helper()
			time.Sleep(time.Second)
			reads.Got.Store(0)
			reads.Listed.Store(0)
			fleet, err := i.Fleet(ctx)
			if err != nil || len(fleet.Clusters()) != clusters {
				t.Errorf("%d clusters, %v, want %d", len(fleet.Clusters()), err, clusters)
			}
			if n := reads.Got.Load() + reads.Listed.Load(); n != read {
				t.Errorf("%d documents were read, want %d", n, read)
			}
		}
		look(20, 0)
		register(20, 40)
		time.Sleep(5 * time.Second)
		look(40, 0)
		register(40, 41)
		look(41, 1)
		stop()
		<-done
	})
}
