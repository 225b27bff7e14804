package repo_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/e2e/repo"
)

// newBare creates a repository with a reflog and three commits, and returns their names.
func newBare(t *testing.T) (b gittest.Bare, commits []string) {
	t.Helper()
	b, err := gittest.Init(t.Context(), t.TempDir(), "main")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Config(t.Context(), "core.logAllRefUpdates", "true"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two", "three"} {
		hash, err := b.CommitExternal(t.Context(), "main", map[string]gittest.File{"d/" + name: {Content: name}})
		if err != nil {
			t.Fatal(err)
		}
		commits = append(commits, hash)
	}
	return b, commits
}

func TestTreeAndHistory(t *testing.T) {
	t.Parallel()
	b, commits := newBare(t)
	files, err := repo.Tree(t.Context(), b, "main")
	if err != nil || len(files) != 3 || files["d/one"] == "" || len(repo.Below(files, "d")) != 3 || len(repo.Below(files, "d/o")) != 0 {
		t.Errorf("Tree = %v, %v; want the three files in d", files, err)
	}
	if files, err := repo.Tree(t.Context(), b, "none"); err != nil || len(files) != 0 {
		t.Errorf("Tree of no branch = %v, %v; want no files", files, err)
	}
	history, err := repo.History(t.Context(), b, "main")
	if err != nil || len(history) != 3 || history[0].Hash != commits[2] || history[0].Parents != commits[1] || history[0].Ours() {
		t.Errorf("History = %+v, %v; want three foreign commits, the newest first", history, err)
	}
}

func TestRewoundFindsABranchThatWentBack(t *testing.T) {
	t.Parallel()
	b, commits := newBare(t)
	bad, moves, err := repo.Rewound(t.Context(), b, "main")
	if err != nil || len(bad) != 0 || moves != 3 {
		t.Fatalf("Rewound of a straight history = %v, %d, %v; want none of 3", bad, moves, err)
	}
	for _, to := range []string{commits[0], commits[2]} { // no trace is left on the branch
		if _, err := b.Git(t.Context(), "", "update-ref", "refs/heads/main", to); err != nil {
			t.Fatal(err)
		}
	}
	if bad, moves, err = repo.Rewound(t.Context(), b, "main"); err != nil || len(bad) == 0 || moves != 5 {
		t.Errorf("Rewound after the branch went back and forth = %v, %d, %v; want some of 5", bad, moves, err)
	}
}

func TestRepeatedFindsCommitsThatChangeNothing(t *testing.T) {
	t.Parallel()
	b, _ := newBare(t)
	empty := "commit refs/heads/main\ncommitter EMCO <emco@localhost> 1700000000 +0000\ndata 5\nempty\nfrom refs/heads/main^0\n\n"
	if _, err := b.Git(t.Context(), empty, "fast-import", "--quiet"); err != nil {
		t.Fatal(err)
	}
	history, err := repo.History(t.Context(), b, "main")
	if err != nil {
		t.Fatal(err)
	}
	if twice := repo.Repeated(history); len(twice) != 1 || !strings.Contains(twice[0].Subject, "empty") {
		t.Errorf("Repeated = %+v, want the empty commit of EMCO", twice)
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	b, _ := newBare(t)
	for _, files := range []map[string]gittest.File{
		{"clusters/c/good.yaml": {Content: "a: 1\n---\nb: [2]\n"}, "clusters/c/bad.yaml": {Content: "a: b: c"}, "else/bad.yaml": {Content: "a: b: c"}, "clusters/c/bad.txt": {Content: "{"}},
		{"clusters/c/bad.yaml": {Content: "a: mended"}, "clusters/c/empty.yaml": {}},
	} {
		if _, err := b.CommitExternal(t.Context(), "main", files); err != nil {
			t.Fatal(err)
		}
	}
	bad, err := repo.Unreadable(t.Context(), b, "clusters/")
	if err != nil || len(bad) != 1 || !strings.HasPrefix(bad[0], "clusters/c/bad.yaml: ") {
		t.Errorf("Unreadable = %q, %v; want the file that a later commit corrected", bad, err)
	}
}
