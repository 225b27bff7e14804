package documenttally_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"path/filepath"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/documenttally"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

// countedDriver counts the documents that are read, fails if the test says so, and may not know what has changed.
type countedDriver struct {
	*sqlite.Driver
	listed, got   int
	broken, blind bool
}

var errBroken = errors.New("the disk is broken")

func (d *countedDriver) Get(ctx context.Context, k store.Key) (store.Doc, error) {
	if d.broken {
		return store.Doc{}, errBroken
	}
	d.got++
	return d.Driver.Get(ctx, k)
}

func (d *countedDriver) List(ctx context.Context, under store.Key, q store.Query) iter.Seq2[store.Doc, error] {
	return func(yield func(store.Doc, error) bool) {
		for doc, err := range d.Driver.List(ctx, under, q) {
			if d.broken {
				yield(store.Doc{}, errBroken)
				return
			}
			d.listed++
			if !yield(doc, err) {
				return
			}
		}
	}
}

func (d *countedDriver) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	c, err := d.Driver.Changes(ctx, mark)
	if d.blind {
		c = store.Changes{All: true, Mark: c.Mark}
	}
	return c, err
}

// tallyStage is a tally, and the store that it counts.
type tallyStage struct {
	*testing.T
	driver *countedDriver
	db     *store.DB // for writing
	tally  *documenttally.Tally
}

func newTallyStage(t *testing.T, keys ...store.Key) *tallyStage {
	t.Helper()
	d, err := sqlite.Open(filepath.Join(t.TempDir(), "docs.db"), sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	counted := &countedDriver{Driver: d}
	s := &tallyStage{T: t, driver: counted, db: store.New(d, nil, seal.New(seal.NewKey()))}
	s.tally = documenttally.New(store.New(counted, nil, seal.New(seal.NewKey())), slog.New(slog.DiscardHandler))
	s.create(keys...)
	return s
}

func (s *tallyStage) create(keys ...store.Key) {
	s.Helper()
	for _, k := range keys {
		if _, err := s.db.Create(s.Context(), store.Write{Key: k, Body: []byte("{}")}); err != nil {
			s.Fatal(err)
		}
	}
}

// want looks, and compares the counts that are not zero, and what was read for them.
func (s *tallyStage) want(listed, got int, counts map[string]int) {
	s.Helper()
	s.driver.listed, s.driver.got = 0, 0
	if err := documenttally.Update(s.tally, s.Context()); err != nil && !s.driver.broken {
		s.Fatal(err)
	}
	now := s.tally.Counts()
	maps.DeleteFunc(now, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(now, counts) || s.driver.listed != listed || s.driver.got != got {
		s.Errorf("%v after %d documents of lists and %d others, want %v after %d and %d", now, s.driver.listed, s.driver.got, counts, listed, got)
	}
}

const app store.Key = "projects/shop/composite-apps/till/v1"

// All documents are read once; after that only those of counted kinds that have changed.
func TestOnlyChangesAreRead(t *testing.T) {
	t.Parallel()
	s := newTallyStage(t, "projects/shop", app, app+"/apps/web", app+"/deployment-intent-groups/autumn", "projects/shop/logical-clouds/stores",
		"cluster-providers/edge", "cluster-providers/edge/clusters/a", "cluster-providers/edge/clusters/a/labels/x", "controllers/c")
	all := map[string]int{"project": 1, "composite_app": 1, "app": 1, "deployment_intent_group": 1, "logical_cloud": 1, "cluster_provider": 1, "cluster": 1, "controller": 1}
	if n := len(s.tally.Counts()); n != 0 {
		t.Errorf("%d counts before the first look", n)
	}
	s.want(9, 0, all)
	s.want(0, 0, all)

	s.create("cluster-providers/edge/clusters/b", "cluster-providers/edge/clusters/b/labels/x", "roles/r")
	all["cluster"] = 2
	s.want(0, 1, all)
	for range 3 {
		if _, err := s.db.Replace(t.Context(), store.Write{Key: "projects/shop", Body: []byte(`{"a":1}`)}, 0); err != nil {
			t.Fatal(err)
		}
	}
	s.want(0, 1, all)
	for _, k := range []store.Key{app + "/apps/web", "controllers/c"} {
		if err := s.db.Delete(t.Context(), k, nil); err != nil {
			t.Fatal(err)
		}
	}
	delete(all, "app")
	delete(all, "controller")
	s.want(0, 2, all)
}

// A look that fails shows what was known, and loses nothing.
func TestALookThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	s := newTallyStage(t, "projects/a")
	s.driver.broken = true
	s.want(0, 0, map[string]int{})
	s.driver.broken = false
	s.want(1, 0, map[string]int{"project": 1})

	s.create("projects/b")
	s.driver.broken = true
	s.want(0, 0, map[string]int{"project": 1})
	s.driver.broken = false
	s.want(0, 1, map[string]int{"project": 2})

	s.create("projects/c")
	s.driver.blind = true // as after a restore
	s.want(3, 0, map[string]int{"project": 3})
}
