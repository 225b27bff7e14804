package github_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
)

// rollout is what n clusters get: the same files of an app, and a pointer of their own.
func rollout(n int, version string) []git.Edit {
	app := map[string][]byte{}
	for i := range 20 {
		app[fmt.Sprintf("part-%02d+Deployment.yaml", i)] = fmt.Appendf(nil, "version: %s\npart: %d\n%s", version, i, strings.Repeat("a: line\n", 100))
	}
	var edits []git.Edit
	for i := range n {
		at := fmt.Sprintf("clusters/edge+site%04d", i)
		edits = append(edits,
			git.Edit{Path: at + "/context/7/app/web", Dir: app},
			git.Edit{Path: at + "/7.yaml", File: fmt.Appendf(nil, "kind: GitRepository\nname: site%04d\n", i)})
	}
	return edits
}

// What a commit costs does not depend on how many clusters it is about.
func TestCallsDoNotGrowWithClusters(t *testing.T) {
	t.Parallel()
	first := map[string]int{
		"GET git/ref/{ref...}": 1, "GET git/commits/{sha}": 1, "GET git/trees/{sha}": 1,
		"POST git/trees": 2, "POST git/commits": 1, "PATCH git/refs/{ref...}": 1,
	}
	warm := map[string]int{"POST git/trees": 2, "POST git/commits": 1, "GET git/ref/{ref...}": 1, "PATCH git/refs/{ref...}": 1}
	cold := map[string]int{
		"GET git/ref/{ref...}": 1, "GET git/commits/{sha}": 1, "GET git/trees/{sha}": 1,
		"POST git/trees": 2, "POST git/commits": 1, "PATCH git/refs/{ref...}": 1,
	}
	for _, n := range []int{10, 100, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			srv, bare, repo := seeded(t)
			h := host(t, github.Options{})
			parent := git.Hash(must(bare.Git(t.Context(), "", "rev-parse", "main")))
			commit := func(h *github.Host, name, version string, want map[string]int) {
				t.Helper()
				srv.Calls()
				id, err := h.Commit(t.Context(), repo, "main", parent, rollout(n, version), git.Message{Title: version})
				if err != nil {
					t.Fatal(err)
				}
				if got := srv.Calls(); !maps.Equal(got, want) {
					t.Errorf("%s: %d clusters cost %v, want %v", name, n, got, want)
				}
				parent = id
			}
			commit(h, "the first commit", "1", first)
			commit(h, "an update", "2", warm)
			commit(host(t, github.Options{}), "an update by a process that knows nothing", "3", cold)
			commit(h, "no change", "3", map[string]int{"GET git/commits/{sha}": 1, "GET git/trees/{sha}": 3})
			if files := must(bare.Git(t.Context(), "", "ls-tree", "-r", "--name-only", "main")); strings.Count(files, "\n") != n*21 {
				t.Errorf("the branch holds %d files, want %d", strings.Count(files, "\n")+1, n*21+1)
			}
			if blobs := must(bare.Git(t.Context(), "", "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")); strings.Count(blobs, "blob") != 1+3*20+n {
				t.Errorf("%d files were sent, want %d", strings.Count(blobs, "blob"), 1+3*20+n)
			}
			if err := bare.Fsck(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func must(out string, err error) string {
	if err != nil {
		panic(err)
	}
	return out
}

// After someone else's commit only what they changed along our paths is read; and what
// was sent for a commit that lost its race is not sent again.
func TestForeignCommitsCostFewCalls(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	at, err := h.Commit(t.Context(), repo, "main", git.Hash(must(bare.Git(t.Context(), "", "rev-parse", "main"))), rollout(100, "1"), git.Message{})
	if err != nil {
		t.Fatal(err)
	}
	theirs := foreign(t, t.Context(), bare, map[string]gittest.File{"README.md": {Content: "new"}, "clusters/edge+site0003/theirs": {Content: "x"}})
	srv.Calls()
	if _, err := h.Commit(t.Context(), repo, "main", at, rollout(100, "2"), git.Message{}); err == nil {
		t.Fatal("a commit on a branch that has moved succeeds")
	}
	srv.Calls()
	if _, err = h.Commit(t.Context(), repo, "main", theirs, rollout(100, "2"), git.Message{}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"GET git/commits/{sha}": 1, "GET git/trees/{sha}": 3, "POST git/trees": 1,
		"POST git/commits": 1, "GET git/ref/{ref...}": 1, "PATCH git/refs/{ref...}": 1,
	}
	if got := srv.Calls(); !maps.Equal(got, want) {
		t.Errorf("the second try cost %v, want %v", got, want)
	}
	if got := must(bare.Show(t.Context(), "main", "clusters/edge+site0003/theirs")); got != "x" {
		t.Errorf("their file holds %q", got)
	}
}

// A small change needs no more than it must.
func TestOneCluster(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	at := git.Hash(must(bare.Git(t.Context(), "", "rev-parse", "main")))
	for _, version := range []string{"1", "2"} {
		var err error
		srv.Calls()
		if at, err = h.Commit(t.Context(), repo, "main", at, rollout(1, version), git.Message{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := srv.Calls(); githubtest.Total(got) != 4 {
		t.Errorf("an update of one cluster cost %v, want 4 calls", got)
	}
	srv.Calls()
	if at, err := h.Commit(t.Context(), repo, "main", at, rollout(1, "2"), git.Message{}); err != nil || githubtest.Total(srv.Calls()) != 0 {
		t.Errorf("a commit of what is there: %s, %v, and it made calls", at, err)
	}
	back, err := h.Commit(t.Context(), repo, "main", at, rollout(1, "1"), git.Message{})
	if got := srv.Calls(); err != nil || githubtest.Total(got) != 3 {
		t.Errorf("going back to what was there cost %v, %v, want 3 calls, none of them for trees: %s", got, err, back)
	}
}

// Files that cannot be sent as text, or are large, come out as they went in; and each
// is sent once.
func TestBinaryAndLargeFiles(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	large, binary := strings.Repeat("x", 1<<20), "\xff\xfe\x00"
	var edits []git.Edit
	for i := range 5 {
		edits = append(edits, git.Edit{Path: fmt.Sprintf("d%d", i), Dir: map[string][]byte{"large": []byte(large), "binary": []byte(binary), "own": fmt.Append(nil, i)}})
	}
	srv.Calls()
	if _, err := h.Commit(t.Context(), repo, "main", git.Hash(must(bare.Git(t.Context(), "", "rev-parse", "main"))), edits, git.Message{}); err != nil {
		t.Fatal(err)
	}
	if got := srv.Calls(); got["POST git/blobs"] != 2 || got["POST git/trees"] != 1 {
		t.Errorf("calls are %v, want 2 for files and 1 for trees", got)
	}
	if must(bare.Show(t.Context(), "main", "d3/large")) != large || must(bare.Show(t.Context(), "main", "d4/binary")) != binary {
		t.Error("files come out otherwise than they went in")
	}
}

// A view costs two calls when it moves; all together cost one listing for each hundred
// branches, and one tree.
func TestViewsCostTwoCallsEach(t *testing.T) {
	t.Parallel()
	const clusters = 120
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	s := git.DerivedUpdate{Branch: "fleet"}
	edit := func(c int, text string) git.Edit {
		return git.Edit{Path: fmt.Sprintf("clusters/p+c%03d/app", c), Dir: map[string][]byte{"f.yaml": []byte(text)}}
	}
	var all []git.Edit
	for c := range clusters {
		s.Derived = append(s.Derived, git.DerivedBranch{Branch: fmt.Sprintf("clusters/p+c%03d", c), Dir: fmt.Sprintf("clusters/p+c%03d", c)})
		all = append(all, edit(c, "1"))
	}
	show := func(name string, h *github.Host, want map[string]int, edits ...git.Edit) {
		t.Helper()
		srv.Calls()
		s.Edits = edits
		shown, err := h.CommitDerived(t.Context(), repo, s)
		if err != nil {
			t.Fatal(err)
		}
		s.Parent = shown.Commit
		if got := srv.Calls(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	listing := "GET git/matching-refs/{ref...}"
	show("all for the first time", h, map[string]int{
		"POST git/trees": 3, "POST git/commits": 1 + clusters, "POST git/refs": 1 + clusters, listing: 1,
	}, all...)
	show("one of them", h, map[string]int{
		"POST git/trees": 2, "POST git/commits": 2, "GET git/ref/{ref...}": 1, "PATCH git/refs/{ref...}": 2, listing: 2,
	}, edit(7, "2"))
	show("a look", h, map[string]int{"GET git/ref/{ref...}": 1, listing: 2})
	show("a look by a process that knows nothing", host(t, github.Options{}), map[string]int{
		"GET git/ref/{ref...}": 1, "GET git/commits/{sha}": 1 + clusters, "GET git/trees/{sha}": 1, listing: 2,
	})
	if got := must(bare.Git(t.Context(), "", "rev-parse", "clusters/p+c007:clusters/p+c007")); got != must(bare.Git(t.Context(), "", "rev-parse", "fleet:clusters/p+c007")) {
		t.Errorf("the view shows tree %s", got)
	}
	if err := bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

// If GitHub protects a view, the error names its directory, so that the other views advance.
func TestAProtectedViewIsBlamed(t *testing.T) {
	t.Parallel()
	srv, _, repo := seeded(t)
	h := host(t, github.Options{})
	s := git.DerivedUpdate{Branch: "fleet", Derived: []git.DerivedBranch{{Branch: "v", Dir: "clusters/c"}}, Edits: []git.Edit{{Path: "clusters/c/f", File: []byte("1")}}}
	first, err := h.CommitDerived(t.Context(), repo, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Protect("acme", "fleet", "v", githubtest.Rule{Status: 422, Message: "Changes must be made through a pull request."}); err != nil {
		t.Fatal(err)
	}
	s.Parent, s.Edits = first.Commit, []git.Edit{{Path: "clusters/c/f", File: []byte("2")}}
	_, err = h.CommitDerived(t.Context(), repo, s)
	if at, ok := errors.AsType[*git.PathError](err); !errs.Is(err, errs.Forbidden) || !ok || at.Path != "clusters/c" {
		t.Errorf("the refusal is %v, want one that blames the directory", err)
	}
}
