package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Every program builds for every platform of a release.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", "archives", "-version", "v9.8.7", "-out", dir)
	cmd.Dir, cmd.Env = local("..", "release"), append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make the archives: %v\n%s", err, out)
	}
	for archive, want := range map[string]int{"emco": 12, "emco-temporal": 8} { // an archive and a bill for each platform; not for Windows
		if files, err := filepath.Glob(filepath.Join(dir, archive+"_v9.8.7_*")); err != nil || len(files) != want {
			t.Errorf("%s: %d files, want %d (%v)", archive, len(files), want, err)
		}
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "checksums.txt")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
