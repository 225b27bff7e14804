package world

import (
	"maps"
	"testing"
)

func TestChangesTouchOnlyTheirPairs(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		w := New(Spec{Apps: 3, Clusters: 4, Resources: 5, Bytes: 1024, Shared: shared})
		if n := len(w.Make(Change{Kind: Install})); n != 12 {
			t.Errorf("shared=%v: an installation changes %d pairs, want 12", shared, n)
		}
		first := w.Want()
		w.Make(Change{Kind: Value, App: 1})
		second := w.Want()
		if n := different(first, second); n != 4*5 {
			t.Errorf("shared=%v: a value of one app changes %d files, want 20", shared, n)
		}
		w.Make(Change{Kind: One, App: 2, Cluster: 3})
		if n := different(second, w.Want()); n != 1 {
			t.Errorf("shared=%v: one cluster changes %d files, want 1", shared, n)
		}
		w.Make(Change{Kind: One, App: 2, Cluster: 0})
		third := w.Want()
		w.Make(Change{Kind: Value, App: 2})
		if n := different(third, w.Want()); n != 20 {
			t.Errorf("shared=%v: a value after it changes %d files, want 20", shared, n)
		}
	}
}

func TestSharedWorldsHaveEqualFiles(t *testing.T) {
	t.Parallel()
	distinct := func(shared bool) int {
		w := New(Spec{Apps: 2, Clusters: 10, Resources: 3, Bytes: 1024, Shared: shared})
		w.Make(Change{Kind: Install})
		ids := map[string]bool{}
		for id := range maps.Values(w.Want()) {
			ids[id] = true
		}
		return len(ids)
	}
	if got := distinct(true); got != 6 {
		t.Errorf("a shared world has %d contents, want 6", got)
	}
	if got := distinct(false); got != 60 {
		t.Errorf("an unshared world has %d contents, want 60", got)
	}
}

func TestManifestsHaveTheSizeAskedFor(t *testing.T) {
	t.Parallel()
	n := len(Manifest(Text{Cluster: "g0001", App: "app01", Resource: "r01", Version: "1", Bytes: 1024}))
	if n < 960 || n > 1060 {
		t.Errorf("a manifest has %d bytes, want about 1024", n)
	}
}

func different(a, b State) (n int) {
	for path, id := range b {
		if a[path] != id {
			n++
		}
	}
	return n
}
