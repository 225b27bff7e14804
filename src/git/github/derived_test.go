package github_test

import (
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// An unused view is removed, unless someone else has written to it.
func TestViewsThatAreGoneAreRemoved(t *testing.T) {
	t.Parallel()
	_, bare, repo := seeded(t)
	h := host(t, github.Options{})
	s := git.DerivedUpdate{Branch: "fleet", Edits: []git.Edit{{Path: "clusters/c0/f", File: []byte("0")}, {Path: "clusters/c1/f", File: []byte("1")}}, Derived: []git.DerivedBranch{
		{Branch: "view/c0", Dir: "clusters/c0"}, {Branch: "view/c1", Dir: "clusters/c1"},
	}}
	first, err := h.CommitDerived(t.Context(), repo, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bare.CommitExternal(t.Context(), "view/c1", map[string]gittest.File{"mine": {Content: "mine"}}); err != nil {
		t.Fatal(err)
	}
	gone := git.DerivedUpdate{Branch: "fleet", Parent: first.Commit, Remove: []string{"view/c0", "view/c1", "view/never"}}
	shown, err := h.CommitDerived(t.Context(), repo, gone)
	if err != nil || !slices.Equal(shown.Removed, []string{"view/c0"}) || !slices.Equal(shown.Diverged, []string{"view/c1"}) || shown.Commit != first.Commit {
		t.Errorf("the removal came to %+v, %v", shown, err)
	}
	if left := must(bare.Git(t.Context(), "", "for-each-ref", "--format=%(refname:short)", "refs/heads/view")); left != "view/c1" {
		t.Errorf("left are %q", left)
	}
}
