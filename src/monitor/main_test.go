package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/version"
)

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	fresh, old := filepath.Join(dir, "fresh"), filepath.Join(dir, "old")
	for _, file := range []string{fresh, old} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	good := []string{"-cluster", "p+c", "-git.url", "https://127.0.0.1:1/r", "-alive.file", ""}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"help", []string{"-help"}, 0, "GIT_CLUSTERNAME"},
		{"version", []string{"-version"}, 0, "monitor " + version.Read().String() + "\n"},
		{"version as a command", []string{"version"}, 0, "monitor " + version.Read().Version},
		{"help names the version", []string{"-help"}, 0, "-version"},
		{"alive", []string{"-alive", "-alive.file", fresh}, 0, ""},
		{"no longer alive", []string{"-alive", "-alive.file", old}, 1, "touched 1h0m0s ago"},
		{"never alive", []string{"-alive", "-alive.file", filepath.Join(dir, "none")}, 1, "no such file"},
		{"nothing is set", nil, 2, "GIT_CLUSTERNAME"},
		{"no such flag", []string{"-port", "80"}, 2, "port"},
		{"no cluster to watch", good, 1, "this is not a pod"},
		{"a file that is not a kubeconfig", append([]string{"-kubeconfig", fresh}, good...), 1, "kubeconfig"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit code %d, want %d, and %q in\n%s", c.name, code, c.code, c.says, out.String())
		}
	}
}
