package inventory_test

import (
	"fmt"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Key-value pairs are read once, and again after a change.
func TestKeyValuesFollowTheirDocuments(t *testing.T) {
	t.Parallel()
	f := newFaultyInventory(t)
	f.create(c0, c1)
	kv := func(name, value string) store.Write {
		return store.Write{Key: c0 + "/kv-pairs/" + store.Key(name), Body: []byte(`{"spec":{"kv":[{"zone":"` + value + `"},{"` + name + `":"x"}]}}`)}
	}
	want := func(cluster v2.ClusterKey, want string) {
		t.Helper()
		f.wantFleet(c0, c1)
		if got, err := f.KeyValues(t.Context(), cluster); err != nil || fmt.Sprint(got) != want {
			t.Errorf("KeyValues(%s) = %v, %v, want %s", cluster, got, err, want)
		}
	}
	want("edge+c0", "map[]")
	for _, w := range []store.Write{kv("b", "south"), kv("a", "north")} {
		if _, err := f.db.Create(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	want("edge+c0", "map[a:x b:x zone:north]")
	want("edge+c1", "map[]")
	f.driver.Fails = func(store.Key) bool { return true }
	want("edge+c0", "map[a:x b:x zone:north]") // nothing has changed, so nothing is read
	f.driver.Fails = nil
	if _, err := f.db.Replace(t.Context(), kv("a", "west"), 0); err != nil {
		t.Fatal(err)
	}
	want("edge+c0", "map[a:x b:x zone:west]")
	if err := f.db.Delete(t.Context(), kv("a", "").Key, nil); err != nil {
		t.Fatal(err)
	}
	want("edge+c0", "map[b:x zone:south]")
}
