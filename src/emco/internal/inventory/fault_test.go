package inventory_test

import (
	"errors"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/logicalcloud"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

const (
	c0        store.Key = "cluster-providers/edge/clusters/c0"
	c1        store.Key = "cluster-providers/edge/clusters/c1"
	cloudKey  store.Key = "projects/p/logical-clouds/lc"
	memberKey           = cloudKey + "/cluster-references/"
)

// faultyInventory is an inventory whose reads can fail, with another store for writing.
type faultyInventory struct {
	*testing.T
	*inventory.Inventory
	driver *resourcetest.Reads
	db     *store.DB
}

func newFaultyInventory(t *testing.T) *faultyInventory {
	t.Helper()
	d, _ := resourcetest.Driver(t)
	f := &faultyInventory{T: t, driver: &resourcetest.Reads{Driver: d}, db: store.New(d, nil, seal.New(seal.NewKey()))}
	f.Inventory = inventory.New(store.New(f.driver, nil, seal.New(seal.NewKey())), logicalcloud.New)
	return f
}

// breaks makes the read of a document fail.
func (f *faultyInventory) breaks(k store.Key) {
	f.driver.Fails = func(read store.Key) bool { return read == k }
}

// breaksAfterOne makes reads below a key fail after the first document.
func (f *faultyInventory) breaksAfterOne(under store.Key) {
	n := 0
	f.driver.Fails = func(read store.Key) bool {
		if strings.HasPrefix(string(read), string(under)) {
			n++
		}
		return n > 1
	}
}

func (f *faultyInventory) create(keys ...store.Key) {
	f.Helper()
	for _, k := range keys {
		w := store.Write{Key: k, Body: []byte("{}")}
		if name, member := strings.CutPrefix(string(k), string(memberKey)); member {
			w.Body = []byte(`{"spec":{"clusterProvider":"edge","cluster":"` + name + `"}}`)
		}
		if _, err := f.db.Create(f.Context(), w); err != nil {
			f.Fatal(err)
		}
	}
}

// wantFleet fails the test unless these are the clusters of the fleet.
func (f *faultyInventory) wantFleet(clusters ...store.Key) {
	f.Helper()
	fleet, err := f.Fleet(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	want := map[store.Key]bool{}
	for _, k := range clusters {
		want[k] = true
	}
	for _, k := range []store.Key{c0, c1} {
		if _, known := fleet.Cluster(v2.ClusterKey("edge+" + string(k[len(k)-2:]))); known != want[k] {
			f.Errorf("%s is in the fleet: %t, want %t", k, known, want[k])
		}
	}
}

func (f *faultyInventory) wantBroken() {
	f.Helper()
	if fleet, err := f.Fleet(f.Context()); !errors.Is(err, resourcetest.ErrBroken) {
		f.Errorf("Fleet = %v, %v, want the error of the driver", fleet, err)
	}
}

// wantMember fails the test unless cluster c0 is a member of the logical cloud, or is not.
func (f *faultyInventory) wantMember(want bool) {
	f.Helper()
	filter, err := f.Cloud(f.Context(), cloudKey, "lc")
	if err != nil {
		f.Fatal(err)
	}
	v, err := filter.Admit(f.Context(), placement.Request{}, placement.Cluster{Provider: "edge", Name: "c0"})
	if err != nil || v.Admitted != want {
		f.Errorf("c0 is a member: %t, %v, want %t", v.Admitted, err, want)
	}
}

// A cluster whose document cannot be read stays in the fleet: only a cluster that is
// deleted leaves it.
func TestAClusterThatCannotBeReadStaysInTheFleet(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0, c1)
	f.wantFleet(c0, c1)
	if _, err := f.db.Replace(t.Context(), store.Write{Key: c0, Body: []byte(`{"a":1}`)}, 0); err != nil {
		t.Fatal(err)
	}
	f.breaks(c0)
	f.wantBroken()
	f.driver.Fails = nil
	f.wantFleet(c0, c1)
}

// A change that could not be read is read by the next call.
func TestAChangeThatCouldNotBeReadIsReadLater(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0)
	f.wantFleet(c0)
	f.create(c1)
	f.breaks(c1)
	f.wantBroken()
	f.driver.Fails = nil
	f.wantFleet(c0, c1)
}

// A fleet that was read in part is not used.
func TestAFleetThatWasReadInPartIsNotUsed(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0, c1)
	f.breaksAfterOne("cluster-providers")
	f.wantBroken()
	f.driver.Fails = nil
	f.wantFleet(c0, c1)

	f.driver.Blind.Store(true)
	f.breaksAfterOne("cluster-providers")
	f.wantBroken()
	f.driver.Blind.Store(false)
	f.driver.Fails = nil
	f.wantFleet(c0, c1)
}

// When everything is read again, so are the members of logical clouds: their changes may be
// among those that are not known.
func TestMembersAreReadAgainWithTheFleet(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0, memberKey+"c0")
	f.wantMember(true)
	if err := f.db.Delete(t.Context(), memberKey+"c0", nil); err != nil {
		t.Fatal(err)
	}
	f.driver.Blind.Store(true)
	f.wantMember(false)
}

// Members that were read in part admit fewer clusters than the logical cloud has.
func TestMembersThatWereReadInPartAreNotUsed(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0, c1, memberKey+"c1", memberKey+"c0")
	f.breaksAfterOne(memberKey)
	if _, err := f.Cloud(t.Context(), cloudKey, "lc"); !errors.Is(err, resourcetest.ErrBroken) {
		t.Errorf("Cloud = %v, want the error of the driver", err)
	}
	f.driver.Fails = nil
	f.wantMember(true)
}
