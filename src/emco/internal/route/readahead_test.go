package route_test

import (
	"fmt"
	"slices"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// The first deployment on a fleet that was just registered reads no registrations, and later registrations are read as they come.
func TestAFleetThatIsRegisteredIsReadAhead(t *testing.T) {
	t.Parallel()
	driver, blobs := resourcetest.Driver(t)
	reads := &resourcetest.Reads{Driver: driver}
	db := store.New(reads, blobs, seal.New(seal.NewKey()))
	r := &route.Resolver{DB: db}
	mark, total := int64(0), int64(0)
	read := func() int64 { return reads.Got.Swap(0) + reads.Listed.Swap(0) }
	ahead := func() {
		t.Helper()
		changes, err := db.Changes(t.Context(), mark)
		if err != nil {
			t.Fatal(err)
		}
		read()
		if mark > 0 {
			r.ReadAhead(t.Context(), changes)
		}
		mark = changes.Mark
		total += read()
	}
	var all []v2.ClusterKey
	register := func(n int) {
		t.Helper()
		for range n {
			key := v2.NewClusterKey("edge", fmt.Sprintf("c%04d", len(all)))
			resourcetest.Put(t, db, store.Key(key.StoreKey()), v2.Cluster{}, "")
			all = append(all, key)
		}
	}
	resourcetest.Put(t, db, "cluster-providers/edge", v2.Named{}, "")
	ahead()
	register(100)
	ahead()
	if total != 0 {
		t.Errorf("a few clusters: %d documents were read ahead, want none", total)
	}
	for range 5 {
		register(100)
		ahead()
	}
	if total != 600 {
		t.Errorf("600 clusters: %d documents were read ahead, want each once", total)
	}
	read()
	lookup := r.Lookup()
	lookup.Prefetch(t.Context(), slices.Values(all))
	for _, c := range all {
		if _, err := lookup.Registration(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if n := read(); n != 0 {
		t.Errorf("a lookup of all clusters read %d documents, want none", n)
	}
}
