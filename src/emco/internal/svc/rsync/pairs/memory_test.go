package pairs_test

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// A change of a large fleet copies pairs a few times, not once for each list that grows: a pair has hundreds
// of bytes.
func TestAChangeOfManyPairsAllocatesAFewCopies(t *testing.T) {
	l, _ := newStore(t)
	const clusters = 4000
	names := make([]v2.ClusterKey, clusters)
	results := make([]pair.Result, clusters)
	for i := range names {
		names[i] = v2.ClusterKey(fmt.Sprintf("edge+c%04d", i))
		results[i] = pair.Result{Key: appcontext.PairKey{Cluster: names[i], Deployment: "7", App: "web"}, Bundle: "a", Rev: 2, Commit: "c0ffee"}
	}
	w := on("a", names...)
	copies := func(of func() error) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := of()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return float64(after.TotalAlloc-before.TotalAlloc) / clusters / float64(unsafe.Sizeof(appcontext.Pair{}))
	}
	desired := copies(func() error { _, err := l.SetDesired(t.Context(), w); return err })
	recorded := copies(func() error { return l.Record(t.Context(), results) })
	if desired > 6 || recorded > 3.5 {
		t.Errorf("got %.1f times the size of a pair for what is desired, and %.1f for results; want at most 6 and 3.5, with the memory of the store", desired, recorded)
	}
}

// The pairs of a target are copied to memory of the caller, who plans thousands of targets one after the other.
func TestPairsOfATargetAreCopiedToTheCallersMemory(t *testing.T) {
	l, _ := newStore(t)
	if _, err := l.SetDesired(t.Context(), on("a", "edge+c1")); err != nil {
		t.Fatal(err)
	}
	target, buffer := pair.Target{Cluster: "edge+c1", Deployment: "7"}, make([]appcontext.Pair, 0, 10)
	if want := l.Of(target); !reflect.DeepEqual(l.AppendOf(buffer, target), want) || len(want) != 1 {
		t.Errorf("got %+v, want %+v", l.AppendOf(buffer, target), want)
	}
	if got := testing.AllocsPerRun(100, func() { buffer = l.AppendOf(buffer[:0], target) }); got > 0 {
		t.Errorf("%.0f allocations, want none", got)
	}
}
