package syncertest

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// Golden compares the plan of b for a typical target with the txtar file at path: the
// files that it writes, and, as a comment, the paths that it owns. With update it writes the
// file.
func Golden(t *testing.T, b syncer.Backend, path string, update bool) {
	t.Helper()
	c, err := b.Plan(Target("provider1+cluster1"), apps())
	if err != nil {
		t.Fatalf("Plan: %v", err)
	}
	var got txtar.Archive
	for _, e := range c.Edits {
		got.Comment = append(got.Comment, "owns "+e.Path+"\n"...)
	}
	files := flatten(c.Edits)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		got.Files = append(got.Files, txtar.File{Name: name, Data: []byte(files[name])})
	}
	text := txtar.Format(&got)
	if update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if string(want) != string(text) {
		t.Errorf("the plan differs from %s; run the test with -update and look at the difference. Got:\n%s", path, text)
	}
}
