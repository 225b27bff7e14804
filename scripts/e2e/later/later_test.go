package later_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/e2e/later"
)

// The sources have what the later release replaces.
func TestTheLaterReleaseCanBeMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flags, err := later.Flags("../../../src", dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(flags) != 4 || !strings.HasSuffix(flags[3], later.Version) {
		t.Errorf("flags: %q", flags)
	}
	text, err := os.ReadFile(filepath.Join(dir, "emco_internal_appcontext_store.go"))
	if err != nil || !strings.Contains(string(text), "\nconst Level = 3\n") {
		t.Errorf("the level is not raised: %v", err)
	}
}

// Sources that have changed are named.
func TestSourcesThatHaveChanged(t *testing.T) {
	t.Parallel()
	sources := t.TempDir()
	if err := os.CopyFS(filepath.Join(sources, "emco/internal/appcontext"), os.DirFS("../../../src/emco/internal/appcontext")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(sources, "emco/internal/appcontext/store.go")
	if err := os.WriteFile(file, []byte("package appcontext\n\nconst Level = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := later.Flags(sources, t.TempDir()); err == nil || !strings.Contains(err.Error(), "appcontext/store.go has 0 times") {
		t.Errorf("error = %v", err)
	}
}
