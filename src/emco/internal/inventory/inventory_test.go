package inventory_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/logicalcloud"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

var labels = []string{"east", "west"}

// snapshot is everything that an inventory returns of a few clusters.
type snapshot struct {
	clusters []placement.Cluster
	labelled [][]v2.ClusterKey
	members  []bool
}

func look(t *rapid.T, i *inventory.Inventory) (out snapshot) {
	t.Helper()
	fleet, err := i.Fleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	within, err := i.Cloud(t.Context(), "projects/p/logical-clouds/lc", "lc")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		c, known := fleet.Cluster(v2.ClusterKey(fmt.Sprint("edge+c", n)))
		c.Labels = slices.Sorted(slices.Values(c.Labels))
		if out.clusters = append(out.clusters, c); known != (c.Name != "") {
			t.Fatalf("cluster %d is known: %t, and is %+v", n, known, c)
		}
		v, err := within.Admit(t.Context(), placement.Request{}, placement.Cluster{Provider: "edge", Name: fmt.Sprint("c", n)})
		if err != nil {
			t.Fatal(err)
		}
		out.members = append(out.members, v.Admitted)
	}
	for _, l := range labels {
		out.labelled = append(out.labelled, fleet.Labelled("edge", l))
	}
	return out
}

// After any writes, an inventory that has followed them equals a new one.
func TestAnInventoryThatFollowsEqualsANewOne(t *testing.T) {
	t.Parallel()
	db := resourcetest.DB(t) // shared by all cases: each write costs a sync
	rapid.Check(t, func(r *rapid.T) {
		kept := inventory.New(db, logicalcloud.New)
		for range rapid.IntRange(1, 4).Draw(r, "looks") {
			for range rapid.IntRange(0, 3).Draw(r, "writes") {
				write(r, db)
			}
			if got, want := look(r, kept), look(r, inventory.New(db, logicalcloud.New)); !reflect.DeepEqual(got, want) {
				r.Fatalf("the inventory that has followed is\n%+v, a new one is\n%+v", got, want)
			}
		}
	})
}

// write creates or deletes a cluster, a label or a member of the logical cloud.
func write(t *rapid.T, db *store.DB) {
	cluster := store.Key(fmt.Sprint("cluster-providers/edge/clusters/c", rapid.IntRange(0, 3).Draw(t, "cluster")))
	w := store.Write{Key: cluster, Body: []byte("{}")}
	switch rapid.IntRange(0, 2).Draw(t, "sort") {
	case 1:
		w.Parent, w.Key = cluster, cluster+"/labels/"+store.Key(rapid.SampledFrom(labels).Draw(t, "label"))
	case 2:
		name := cluster[len(cluster)-2:]
		w.Key = "projects/p/logical-clouds/lc/cluster-references/" + name
		w.Body = fmt.Appendf(nil, `{"spec":{"clusterProvider":"edge","cluster":%q}}`, name)
	}
	var err error
	if rapid.Bool().Draw(t, "make") {
		_, err = db.Create(t.Context(), w)
	} else {
		err = db.Delete(t.Context(), w.Key, nil)
	}
	switch errs.KindOf(err) {
	case errs.NotFound, errs.Exists, errs.Conflict:
	default:
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What did not change is returned as the same value, so that decisions made from it hold.
func TestWhatDidNotChangeIsTheSameValue(t *testing.T) {
	t.Parallel()
	db := resourcetest.DB(t)
	make := func(k, parent store.Key) {
		t.Helper()
		if _, err := db.Create(t.Context(), store.Write{Key: k, Parent: parent, Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	i := inventory.New(db, logicalcloud.New)
	look := func() (placement.Filter, []v2.ClusterKey) {
		t.Helper()
		fleet, err := i.Fleet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		within, err := i.Cloud(t.Context(), "projects/p/logical-clouds/lc", "lc")
		if err != nil {
			t.Fatal(err)
		}
		return within, fleet.Labelled("edge", "east")
	}
	make("cluster-providers/edge/clusters/c0", "")
	make("cluster-providers/edge/clusters/c0/labels/east", "cluster-providers/edge/clusters/c0")
	filter, east := look()
	make("cluster-providers/edge/clusters/c1", "")
	make("cluster-providers/edge/clusters/c1/labels/west", "cluster-providers/edge/clusters/c1")
	if f, e := look(); f != filter || len(e) != 1 || &e[0] != &east[0] {
		t.Error("a change of another cluster replaced the filter, or the list of a label that the cluster does not have")
	}
}
