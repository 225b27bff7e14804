package route_test

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

// countingDriver counts lists of clusters.
type countingDriver struct {
	*sqlite.Driver
	lists int
}

func (d *countingDriver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	if under == provider+"/clusters" {
		d.lists++
	}
	return d.Driver.List(ctx, under, q)
}

// Lookups, also one after the other, share one list of a provider's clusters. Of clusters that are written only these are read again, also if they are many. Each
// lookup sees what was written before it began.
func TestLookupsShareAList(t *testing.T) {
	t.Parallel()
	driver, err := sqlite.Open(filepath.Join(t.TempDir(), "emco.db"), sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	counted := &countingDriver{Driver: driver}
	f := clusterFixture{t, store.New(counted, nil, seal.New(seal.NewKey()))}
	t.Cleanup(func() { _ = driver.Close() })
	f.put(provider, v2.Named{}, "")
	var clusters []v2.ClusterKey
	for i := range 500 {
		name := fmt.Sprintf("c%03d", i)
		clusters = append(clusters, v2.ClusterKey("edge+"+name))
		f.register(name, v2.GitOps{}, "")
	}
	r := f.resolver()
	r.ReadAhead(t.Context(), store.Changes{}) // so lists are held
	look := func(want int) (uid string, err error) {
		t.Helper()
		runtime.GC() // who looked before is gone
		l := r.Lookup()
		l.Prefetch(t.Context(), slices.Values(clusters))
		c, err := l.Registration(t.Context(), "edge+c007")
		if counted.lists != want {
			t.Errorf("%d lists, want %d", counted.lists, want)
		}
		return c.UID, err
	}
	first := r.Lookup()
	first.Prefetch(t.Context(), slices.Values(clusters))
	before, err := look(1)
	if err != nil {
		t.Fatal(err)
	}
	resourcetest.Put(t, f.db, "projects/p", v2.Named{}, "")
	if again, err := look(1); again != before || err != nil {
		t.Errorf("after another document was written: %q, %v, want %q", again, err, before)
	}
	if err := f.db.Delete(t.Context(), provider+"/clusters/c007", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := look(1); !errs.Is(err, errs.NotFound) {
		t.Errorf("after the cluster was deleted: got %v", err)
	}
	f.register("c007", v2.GitOps{}, "")
	if now, err := look(1); now == before || err != nil {
		t.Errorf("after the cluster was registered again: %q, %v, before %q", now, err, before)
	}
	if c, err := first.Registration(t.Context(), "edge+c007"); c.UID != before || err != nil {
		t.Errorf("the first lookup changed its answer: %q, %v, want %q", c.UID, err, before)
	}
	for i := range 500 {
		f.register(fmt.Sprintf("d%03d", i), v2.GitOps{}, "")
	}
	if _, err := look(1); err != nil {
		t.Error(err)
	}
}
