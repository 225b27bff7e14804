package sqlite_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// A file of the first version gets what is new, and keeps its documents.
func TestAnOlderFileIsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "docs.db")
	if err := open(t, path).Put(t.Context(), store.Doc{Key: "old", Tag: 1}, 0); err != nil {
		t.Fatal(err)
	}
	change(t, path, "DROP TABLE changes; PRAGMA user_version = 1")
	d := open(t, path)
	if _, err := d.Get(t.Context(), "old"); err != nil {
		t.Error(err)
	}
	if err := d.Put(t.Context(), store.Doc{Key: "new", Tag: 1}, 0); err != nil {
		t.Error(err)
	}
	if _, err := open(t, path).Get(t.Context(), "new"); err != nil {
		t.Error(err)
	}
}

// The answer for a mark that is too old is that anything may have changed, and so is the
// one for a mark that is later than what the file holds, as after a restored backup.
func TestMarksThatSayNothingAnyMore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "docs.db")
	d := open(t, path)
	for _, k := range []store.Key{"a", "b", "c", "d"} {
		if err := d.Put(t.Context(), store.Doc{Key: k, Tag: 1}, 0); err != nil {
			t.Fatal(err)
		}
	}
	change(t, path, "DELETE FROM changes WHERE seq <= 2")
	for mark, want := range map[int64]store.Changes{
		1: {All: true, Mark: 4},
		2: {Keys: []store.Key{"c", "d"}, Mark: 4},
		4: {Mark: 4},
		9: {All: true, Mark: 4},
	} {
		got, err := d.Changes(t.Context(), mark)
		if err != nil || got.All != want.All || got.Mark != want.Mark || !slices.Equal(got.Keys, want.Keys) {
			t.Errorf("changes since %d: %+v, %v; want %+v", mark, got, err, want)
		}
	}
}
