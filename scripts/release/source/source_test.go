package source_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/release/source"
)

func TestExport(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
			"GIT_AUTHOR_DATE=2026-05-04T03:02:01Z", "GIT_COMMITTER_DATE=2026-05-04T03:02:01Z")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	write("kept", "committed")
	git("add", "kept")
	git("commit", "-qm", "first")
	write("kept", "changed afterwards")
	write("untracked", "x")

	tree, err := source.Export(t.Context(), repo, filepath.Join(t.TempDir(), "out"), "")
	if err != nil {
		t.Fatal(err)
	}
	commit := git("rev-parse", "HEAD")
	if want := "v0.0.0-20260504030201-" + commit[:12]; tree.Version != want || tree.Commit != commit {
		t.Errorf("version %s of %s, want %s of %s", tree.Version, tree.Commit, want, commit)
	}
	text, err := os.ReadFile(filepath.Join(tree.Dir, "kept"))
	if err != nil || string(text) != "committed" || !slices.Equal(tree.Files, []string{"kept"}) {
		t.Errorf("%q, files %v (%v)", text, tree.Files, err)
	}
	if entries, err := os.ReadDir(tree.Dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, want one file (%v)", entries, err)
	}
	if status := git("status", "--porcelain"); status != "M kept\n?? untracked" {
		t.Errorf("the export changed the repository: %q", status)
	}

	git("tag", "v1.2.3")
	for given, want := range map[string]string{"": "v1.2.3", "v2.0.0": "v2.0.0"} {
		if tree, err = source.Export(t.Context(), repo, filepath.Join(t.TempDir(), "out"), given); err != nil || tree.Version != want {
			t.Errorf("-version %q: %s, want %s (%v)", given, tree.Version, want, err)
		}
	}
}
