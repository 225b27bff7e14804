package inventory_test

import (
	"fmt"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/cloud"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// An inventory that looked before a fleet was registered lists it; it reads single clusters that come later by themselves.
func TestAFleetThatWasJustRegisteredIsListed(t *testing.T) {
	t.Parallel()
	driver, blobs := resourcetest.Driver(t)
	reads := &resourcetest.Reads{Driver: driver}
	db := store.New(reads, blobs, seal.New(seal.NewKey()))
	i := inventory.New(db, cloud.New)
	resourcetest.Put(t, db, "cluster-providers/edge", v2.Named{}, "")
	look := func(clusters int, most int64) {
		t.Helper()
		reads.Got.Store(0)
		fleet, err := i.Fleet(t.Context())
		if err != nil || len(fleet.Clusters()) != clusters {
			t.Errorf("%d clusters, %v, want %d", len(fleet.Clusters()), err, clusters)
		}
		if n := reads.Got.Load(); n > most {
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
