package storeidentity_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/storeidentity"
)

// documents opens a store of documents that is empty.
func documents(t *testing.T) store.Driver {
	t.Helper()
	dir := t.TempDir()
	d, _, err := all.Drivers()[all.SQLite](t.Context(), all.Place{File: filepath.Join(dir, "documents.db"), Packages: filepath.Join(dir, "packages"), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// Stores that were joined once stay together, and each is refused with a stranger: the error names both places and a remedy.
func TestStoresThatBelongToOthersAreRefused(t *testing.T) {
	t.Parallel()
	ours, contexts := documents(t), contexttest.New(t)
	stores := storeidentity.Stores{Documents: ours, Contexts: contexts, Places: storeidentity.Places{
		Documents: "documents.db", Contexts: "etcd below /ours/", Forget: "delete these keys from etcd", Share: "the same data folder",
	}}
	for range 2 {
		if err := stores.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	id, err := store.ID(t.Context(), ours)
	if recorded, _ := contexts.DocumentsID(t.Context()); err != nil || id == "" || recorded != id {
		t.Fatalf("the documents have the id %q (%v), the AppContext has %q", id, err, recorded)
	}
	others := documents(t)
	if err := (storeidentity.Stores{Documents: others, Contexts: contexttest.New(t)}).Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, foreign := range map[string]store.Driver{"of another installation": others, "that are new": documents(t)} {
		stores.Documents = foreign
		err := stores.Join(t.Context())
		if err == nil {
			t.Fatalf("documents %s were joined", name)
		}
		for _, want := range []string{"the AppContext in etcd below /ours/", "documents.db", "give this process the same data folder", "delete these keys from etcd"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("documents %s: %v, want %q in it", name, err, want)
			}
		}
	}
}
