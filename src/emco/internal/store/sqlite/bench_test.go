package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

func open(t testing.TB, path string) *sqlite.Driver {
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

// What a write costs is mostly the disk's sync.
func BenchmarkPut(b *testing.B) {
	d := open(b, filepath.Join(b.TempDir(), "docs.db"))
	for i := 0; b.Loop(); i++ {
		if err := d.Put(b.Context(), store.Doc{Key: store.Key(fmt.Sprintf("a/%d", i)), Tag: 1, Refs: []store.Key{"r"}}, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	d := open(b, filepath.Join(b.TempDir(), "docs.db"))
	if err := d.Put(b.Context(), store.Doc{Key: "a", Tag: 1}, 0); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := d.Get(b.Context(), "a"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkListPage(b *testing.B) {
	d := open(b, filepath.Join(b.TempDir(), "docs.db"))
	for i := range 500 {
		if err := d.Put(b.Context(), store.Doc{Key: store.Key(fmt.Sprintf("a/%03d", i)), Tag: 1, Body: make([]byte, 500)}, 0); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		n := 0
		for _, err := range d.List(b.Context(), "a", store.Query{Depth: 1}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 500 {
			b.Fatalf("listed %d documents, want 500", n)
		}
	}
}

// Most lists are short: preparing a statement for each list would cost more than reading it.
func BenchmarkListFew(b *testing.B) {
	d := open(b, filepath.Join(b.TempDir(), "docs.db"))
	for i := range 3 {
		if err := d.Put(b.Context(), store.Doc{Key: store.Key(fmt.Sprintf("a/%03d", i)), Tag: 1, Body: make([]byte, 500)}, 0); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		for _, err := range d.List(b.Context(), "a", store.Query{Depth: 1}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
