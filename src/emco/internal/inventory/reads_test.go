package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/logicalcloud"
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
	i := inventory.New(db, logicalcloud.New)
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
		i := inventory.New(db, logicalcloud.New)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { i.Follow(ctx); close(done) }()
		look := func(clusters int, read int64) {
			t.Helper()
			synctest.Wait() // for a look that has begun
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

// A logical cloud whose members are known is not listed again: a change of members reads those that changed.
func TestAMemberMoreIsOneRead(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0, c1)
	for n := range 20 {
		f.create(memberKey + store.Key(fmt.Sprint("m", n)))
	}
	f.wantMember(false)
	look := func(member bool, reads int64) {
		t.Helper()
		f.driver.Got.Store(0)
		f.driver.Listed.Store(0)
		f.wantMember(member)
		if n, listed := f.driver.Got.Load(), f.driver.Listed.Load(); n != reads || listed != 0 {
			t.Errorf("%d documents were read and %d listed, want %d and 0", n, listed, reads)
		}
	}
	f.create(memberKey + "c0")
	look(true, 1)
	look(true, 0)
	if err := f.db.Delete(t.Context(), memberKey+"c0", nil); err != nil {
		t.Fatal(err)
	}
	look(false, 1)
	f.create(memberKey + "c0/notes")
	look(false, 0)
}

// Members that could not be read are read by the next call.
func TestAMemberThatCouldNotBeReadIsReadLater(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0, memberKey+"c1")
	f.wantMember(false)
	f.create(memberKey + "c0")
	f.breaks(memberKey + "c0")
	if _, err := f.Cloud(t.Context(), cloudKey, "lc"); !errors.Is(err, resourcetest.ErrBroken) {
		t.Errorf("Cloud = %v, want the error of the driver", err)
	}
	f.driver.Fails = nil
	f.wantMember(true)
}

// When the document of a logical cloud is written, its members are listed again: it may be another cloud of the same name.
func TestAnotherCloudOfTheSameNameHasItsOwnMembers(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0, memberKey+"c0")
	f.wantMember(true)
	f.create(cloudKey)
	f.driver.Listed.Store(0)
	f.wantMember(true)
	if f.driver.Listed.Load() == 0 {
		t.Error("the members were not listed")
	}
}

// While an inventory is followed, it reads the members of new logical clouds before anybody asks for them.
func TestAFollowedInventoryReadsMembersAhead(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0)
	f.wantFleet(c0)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { f.Follow(ctx); close(done) }()
		time.Sleep(time.Second)
		f.create(memberKey+"c1", memberKey+"c0")
		time.Sleep(5 * time.Second)
		f.driver.Got.Store(0)
		f.driver.Listed.Store(0)
		f.wantMember(true)
		if n := f.driver.Got.Load() + f.driver.Listed.Load(); n != 0 {
			t.Errorf("%d documents were read, want 0", n)
		}
		f.driver.Blind.Store(true) // more was written than the store remembers
		time.Sleep(6 * time.Second)
		f.driver.Blind.Store(false)
		f.driver.Got.Store(0)
		f.driver.Listed.Store(0)
		f.wantMember(true)
		if n := f.driver.Got.Load() + f.driver.Listed.Load(); n != 0 {
			t.Errorf("after too many writes %d documents were read, want 0", n)
		}
		stop()
		<-done
	})
}
