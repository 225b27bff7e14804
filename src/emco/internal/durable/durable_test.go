package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMakeDirMakesAClosedFolderOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if err := MakeDir(path); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}

func TestSyncDirSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	if err := SyncDir(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
}
