package documenttally_test

import (
	"errors"
	"log/slog"
	"maps"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/documenttally"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// tallyStage is a tally, and the store that it counts.
type tallyStage struct {
	*testing.T
	driver *resourcetest.Reads
	db     *store.DB // for writing
	tally  *documenttally.Tally
}

func newTallyStage(t *testing.T, keys ...store.Key) *tallyStage {
	t.Helper()
	d, _ := resourcetest.Driver(t)
	reads := &resourcetest.Reads{Driver: d}
	s := &tallyStage{T: t, driver: reads, db: store.New(d, nil, seal.New(seal.NewKey()))}
	s.tally = documenttally.New(store.New(reads, nil, seal.New(seal.NewKey())), slog.New(slog.DiscardHandler))
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

// breaks makes all reads fail, or none.
func (s *tallyStage) breaks(yes bool) { s.driver.Fails = func(store.Key) bool { return yes } }

// want looks, and compares the counts that are not zero, and what was read for them.
func (s *tallyStage) want(listed, got int64, counts map[string]int) {
	s.Helper()
	s.driver.Listed.Store(0)
	s.driver.Got.Store(0)
	if err := documenttally.Update(s.tally, s.Context()); err != nil && !errors.Is(err, resourcetest.ErrBroken) {
		s.Fatal(err)
	}
	now := s.tally.Counts()
	maps.DeleteFunc(now, func(_ string, n int) bool { return n == 0 })
	if l, g := s.driver.Listed.Load(), s.driver.Got.Load(); !maps.Equal(now, counts) || l != listed || g != got {
		s.Errorf("%v after %d documents of lists and %d others, want %v after %d and %d", now, l, g, counts, listed, got)
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
	s.breaks(true)
	s.want(0, 0, map[string]int{})
	s.breaks(false)
	s.want(1, 0, map[string]int{"project": 1})

	s.create("projects/b")
	s.breaks(true)
	s.want(0, 0, map[string]int{"project": 1})
	s.breaks(false)
	s.want(0, 1, map[string]int{"project": 2})

	s.create("projects/c")
	s.driver.Blind.Store(true) // as after a restore
	s.want(3, 0, map[string]int{"project": 3})
}
