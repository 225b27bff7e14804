package appcontext

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"pgregory.net/rapid"
)

// Two lists are gone through together; what shares its Apps is the same set.
func TestZip(t *testing.T) {
	t.Parallel()
	one, other := map[string]Digest{"app": "1"}, map[string]Digest{"app": "1"}
	a := []Placement{{"a", one}, {"b", one}, {"d", other}}
	b := []Placement{{"b", one}, {"c", other}, {"d", one}, {"e", one}}
	var got [][2]Placement
	for x, y := range Zip(a, b) {
		got = append(got, [2]Placement{x, y})
	}
	want := [][2]Placement{{a[0], {Cluster: "a"}}, {a[1], b[0]}, {{Cluster: "c"}, b[1]}, {a[2], b[2]}, {{Cluster: "e"}, b[3]}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if a[0].SetID() != b[0].SetID() || a[2].SetID() == b[2].SetID() {
		t.Error("sets must be compared by their content, not by identity")
	}
	for range Zip(nil, nil) {
		t.Error("of nothing something came")
	}
}

// Values that etcd holds in the format from before lists of clusters were content are read as before.
func TestPlacementsFromBeforeListsWereContent(t *testing.T) {
	t.Parallel()
	old := placementValue{}
	must(t, json.Unmarshal([]byte(`{"sets":[{"app":"d"},{"app":"e"}],"clusters":["p+a","p+b","p+c"],"holds":[0,1,0]}`), &old))
	got, err := old.chunk(t.Context(), func(context.Context, Digest) ([]byte, error) { panic("it refers to no content") })
	must(t, err)
	want := placementChunk{Sets: []map[string]Digest{{"app": "d"}, {"app": "e"}}, Clusters: []v2.ClusterKey{"p+a", "p+b", "p+c"}, Holds: []int{0, 1, 0}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Revisions that place on the same clusters share one list of them. A sweep keeps it while one of
// the revisions exists, and then removes it.
func TestRevisionsShareListsOfClusters(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	s, ctx := newStore(t, WithClock(func() time.Time { return now })), t.Context()
	bundles := map[string]Digest{}
	for _, name := range []string{"one", "two", "three"} {
		d, err := s.PutBundle(ctx, Bundle{Objects: []Ref{{Stamp: name}}})
		must(t, err)
		bundles[name] = d
	}
	size := func() (n int) {
		for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key("dep", "7", "place") + "/"}) {
			must(t, err)
			n += len(kv.Value)
		}
		return n
	}
	h := create(t, s, "7")
	publish := func(rev int64, all []Placement) {
		t.Helper()
		var err error
		h, err = s.Publish(ctx, h, Revision{Number: rev, At: now}, slices.Values(all))
		must(t, err)
	}
	fleet := places(3000, bundles["one"])
	publish(1, fleet)
	lists := len(keysBelow(t, s, "blob/"))
	first := size()
	publish(2, places(3000, bundles["two"]))
	one := places(3000, bundles["two"])
	one[1500].Apps = map[string]Digest{"app": bundles["three"]}
	publish(3, one)
	if more := size() - first; first > 300 || more > 2*first+300 {
		t.Errorf("placements of 3,000 clusters take %d bytes, of two more revisions %d", first, more)
	}
	if n := len(keysBelow(t, s, "blob/")); n != lists {
		t.Errorf("%d contents after three revisions, %d after one", n, lists)
	}
	for rev, want := range map[int64][]Placement{1: fleet, 3: one} {
		if got := placed(t)(uncached(s).Placements(ctx, "7", rev)); !reflect.DeepEqual(got, want) {
			t.Errorf("the placements of revision %d came back otherwise", rev)
		}
	}
	now = now.Add(time.Hour)
	sweepAll(t, s, 1)
	if got := placed(t)(uncached(s).Placements(ctx, "7", 3)); !reflect.DeepEqual(got, one) {
		t.Error("the placements of revision 3 are not whole after a sweep")
	}
	publish(4, places(1, bundles["two"]))
	now = now.Add(time.Hour)
	sweepAll(t, s, 1)
	if n := len(keysBelow(t, s, "blob/")); n != 1 {
		t.Errorf("%d contents are left, want the bundle alone", n)
	}
}

// Whatever clusters hold, a value gives back its chunk.
func TestAPlacementValueGivesBackItsChunk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c placementChunk
		for i := range rapid.IntRange(1, 4).Draw(t, "sets") {
			c.Sets = append(c.Sets, map[string]Digest{"app": Digest(fmt.Sprint(i))})
		}
		for i := range rapid.IntRange(1, 200).Draw(t, "clusters") {
			c.Clusters = append(c.Clusters, v2.ClusterKey(fmt.Sprintf("p+c%05d", i)))
			c.Holds = append(c.Holds, rapid.IntRange(0, len(c.Sets)-1).Draw(t, "holds"))
		}
		v, refers, content, err := c.value()
		must(t, err)
		text, err := json.Marshal(v)
		must(t, err)
		var stored placementValue
		must(t, json.Unmarshal(text, &stored))
		if d, err := stored.refers(); d != refers || err != nil {
			t.Fatalf("it refers to %q, %v, want %q", d, err, refers)
		}
		got, err := stored.chunk(context.Background(), func(_ context.Context, d Digest) ([]byte, error) {
			if d != refers {
				t.Fatalf("%q was read, want %q", d, refers)
			}
			return content, nil
		})
		must(t, err)
		if !reflect.DeepEqual(got, c) {
			t.Fatalf("got %+v, want %+v", got, c)
		}
	})
}
