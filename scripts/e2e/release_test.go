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
	if files, err := filepath.Glob(filepath.Join(dir, "emco_v9.8.7_*")); err != nil || len(files) != 12 {
		t.Errorf("%d files, want an archive and a bill for each of six platforms (%v)", len(files), err)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "checksums.txt")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
