package store_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/blobdir"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

// openDriver opens the SQLite file at path until the test ends.
func openDriver(t testing.TB, path string) *sqlite.Driver {
	t.Helper()
	d, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// openDB returns a DB on SQLite and files in a folder of its own.
func openDB(t testing.TB) *store.DB {
	t.Helper()
	dir := t.TempDir()
	b, err := blobdir.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	return store.New(openDriver(t, filepath.Join(dir, "docs.db")), b, seal.New(seal.NewKey()))
}

// create puts documents there, each below the one before it whose key is its prefix.
func create(t testing.TB, db *store.DB, writes ...store.Write) []store.Doc {
	t.Helper()
	var docs []store.Doc
	for _, w := range writes {
		d, err := db.Create(t.Context(), w)
		if err != nil {
			t.Fatalf("create %s: %v", w.Key, err)
		}
		docs = append(docs, d)
	}
	return docs
}

const (
	provider = store.Key("cluster-providers/edge")
	cluster  = store.Key("cluster-providers/edge/clusters/c1")
	sync     = store.Key("cluster-providers/edge/cluster-sync-objects/repo")
)

func TestWhatOthersNeedStays(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	create(t, db,
		store.Write{Key: provider},
		store.Write{Key: sync, Parent: provider},
		store.Write{Key: cluster, Parent: provider, Refs: []store.Ref{{Key: sync, Must: true}}})

	err := db.Delete(t.Context(), provider, nil)
	wantRelated(t, err, store.ErrHasChildren, sync)
	err = db.Delete(t.Context(), sync, nil)
	wantRelated(t, err, store.ErrReferenced, cluster)

	for _, k := range []store.Key{cluster, sync, provider} {
		if err := db.Delete(t.Context(), k, nil); err != nil {
			t.Errorf("Delete(%s) = %v, want nil", k, err)
		}
		if _, err := db.Get(t.Context(), k); !errs.Is(err, errs.NotFound) {
			t.Errorf("Get(%s) after its deletion = %v, want NotFound", k, err)
		}
	}
}

// wantRelated checks that err is a Conflict for the reason, naming the other document.
func wantRelated(t *testing.T, err, reason error, other store.Key) {
	t.Helper()
	r, ok := errors.AsType[*store.Related](err)
	if !ok || !errs.Is(err, errs.Conflict) || !errors.Is(err, reason) || r.Key != other {
		t.Errorf("got error %v, want a Conflict because %v, naming %s", err, reason, other)
	}
}
