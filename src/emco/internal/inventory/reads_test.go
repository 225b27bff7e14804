package inventory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/cloud"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// readCounter counts documents that are read one by one.
type readCounter struct {
	store.Driver
	n atomic.Int64
}

func (c *readCounter) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	c.n.Add(1)
	return c.Driver.Get(ctx, k)
}

func (c *readCounter) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	return c.Driver.(store.Follower).Changes(ctx, mark)
}

// An inventory that looked before a fleet was registered lists it; it reads single clusters that come later by themselves.
func TestAFleetThatWasJustRegisteredIsListed(t *testing.T) {
	t.Parallel()
	driver, blobs := resourcetest.Driver(t)
	counted := &readCounter{Driver: driver}
	db := store.New(counted, blobs, seal.New(seal.NewKey()))
	i := inventory.New(db, cloud.New)
	resourcetest.Put(t, db, "cluster-providers/edge", v2.Named{}, "")
	look := func(clusters int, most int64) {
		t.Helper()
		counted.n.Store(0)
		fleet, err := i.Fleet(t.Context())
		if err != nil || len(fleet.Clusters()) != clusters {
			t.Errorf("%d clusters, %v, want %d", len(fleet.Clusters()), err, clusters)
		}
		if n := counted.n.Load(); n > most {
			t.Errorf("%d documents were read one by one, want %d at most", n, most)
		}
	}
	register := func(n int) {
		t.Helper()
		resourcetest.Put(t, db, store.Key(fmt.Sprint("cluster-providers/edge/clusters/c", n)), v2.Cluster{}, "")
	}
	look(0, 0)
	for n := range 200 {
		register(n)
	}
	look(200, 0)
	register(200)
	look(201, 1)
	look(201, 0)
}
