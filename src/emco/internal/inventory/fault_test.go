package inventory_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/inventory"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement/cloud"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

const (
	c0        store.Key = "cluster-providers/edge/clusters/c0"
	c1        store.Key = "cluster-providers/edge/clusters/c1"
	cloudKey  store.Key = "projects/p/logical-clouds/lc"
	memberKey           = cloudKey + "/cluster-references/"
)

var errBroken = errors.New("the disk is broken")

// faultyDriver is a driver that fails as the test requires.
type faultyDriver struct {
	*sqlite.Driver
	get  store.Key // reading it fails
	list store.Key // listing below it fails after the first document
	all  bool      // it does not know what has changed
}

func (d *faultyDriver) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	if k == d.get {
		return store.Doc{}, errBroken
	}
	return d.Driver.Get(ctx, k)
}

func (d *faultyDriver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	if d.list == "" || !strings.HasPrefix(string(under), string(d.list)) {
		return d.Driver.List(ctx, under, q)
	}
	return func(yield func(store.Doc, error) bool) {
		for doc, err := range d.Driver.List(ctx, under, q) {
			if !yield(doc, err) {
				return
			}
			yield(store.Doc{}, errBroken)
			return
		}
	}
}

func (d *faultyDriver) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	changes, err := d.Driver.Changes(ctx, mark)
	if d.all {
		changes = store.Changes{All: true, Mark: changes.Mark}
	}
	return changes, err
}

// faultyInventory is an inventory on a faultyDriver, with another store for writing.
type faultyInventory struct {
	*testing.T
	*inventory.Inventory
	driver *faultyDriver
	db     *store.DB
}

func newFaultyInventory(t *testing.T) *faultyInventory {
	t.Helper()
	d, err := sqlite.Open(filepath.Join(t.TempDir(), "docs.db"), sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	f := &faultyInventory{T: t, driver: &faultyDriver{Driver: d}, db: store.New(d, nil, seal.New(seal.NewKey()))}
	f.Inventory = inventory.New(store.New(f.driver, nil, seal.New(seal.NewKey())), cloud.New)
	return f
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
	if fleet, err := f.Fleet(f.Context()); !errors.Is(err, errBroken) {
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
	f.driver.get = c0
	f.wantBroken()
	f.driver.get = ""
	f.wantFleet(c0, c1)
}

// A change that could not be read is read by the next call.
func TestAChangeThatCouldNotBeReadIsReadLater(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0)
	f.wantFleet(c0)
	f.create(c1)
	f.driver.get = c1
	f.wantBroken()
	f.driver.get = ""
	f.wantFleet(c0, c1)
}

// A fleet that was read in part is not used.
func TestAFleetThatWasReadInPartIsNotUsed(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0, c1)
	f.driver.list = "cluster-providers"
	f.wantBroken()
	f.driver.list = ""
	f.wantFleet(c0, c1)

	f.driver.all, f.driver.list = true, "cluster-providers"
	f.wantBroken()
	f.driver.all, f.driver.list = false, ""
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
	f.driver.all = true
	f.wantMember(false)
}

// Members that were read in part admit fewer clusters than the logical cloud has.
func TestMembersThatWereReadInPartAreNotUsed(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0, c1, memberKey+"c1", memberKey+"c0")
	f.driver.list = memberKey[:len(memberKey)-1]
	if _, err := f.Cloud(t.Context(), cloudKey, "lc"); !errors.Is(err, errBroken) {
		t.Errorf("Cloud = %v, want the error of the driver", err)
	}
	f.driver.list = ""
	f.wantMember(true)
}
