package plain_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// list returns path and mode of all that is at a commit.
func list(t *testing.T, host git.Host, repo git.Repo, at git.Hash, under string) map[string]git.Hash {
	t.Helper()
	got := map[string]git.Hash{}
	for e, err := range host.Tree(t.Context(), repo, at, under) {
		if err != nil {
			t.Fatal(err)
		}
		got[e.Path] = e.ID
	}
	return got
}

// gitList is what git itself lists.
func gitList(t *testing.T, b gittest.Bare, at git.Hash) map[string]git.Hash {
	t.Helper()
	out, err := b.Git(t.Context(), "", "ls-tree", "-r", "--format=%(objectname) %(path)", string(at))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]git.Hash{}
	for line := range strings.SplitSeq(out, "\n") {
		id, path, _ := strings.Cut(line, " ")
		want[path] = git.Hash(id)
	}
	return want
}

// fleet returns files of n clusters with distinct content.
func fleet(n int) map[string]gittest.File {
	files := map[string]gittest.File{}
	for c := range n {
		for f := range 10 {
			files[fmt.Sprintf("clusters/c%04d/app/f%d.yaml", c, f)] = gittest.File{Content: fmt.Sprintf("cluster %d file %d\n%s", c, f, strings.Repeat("x: y\n", 40))}
		}
	}
	return files
}

// After a first look, a foreign commit costs only the trees that it changed, also
// when the server packed everything into deltas.
func TestLaterFetchesBringOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "file"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			bare, repo := serve(t, transport)
			host := plain.New(plain.Options{AllowFile: true})
			first := foreign(t, t.Context(), bare, "main", fleet(300))
			if _, err := bare.Git(t.Context(), "", "repack", "-a", "-d", "-f", "-q"); err != nil {
				t.Fatal(err)
			}
			if got, want := list(t, host, repo, first, ""), gitList(t, bare, first); !maps.Equal(got, want) {
				t.Fatalf("Tree lists %d files, want %d, or with other names or hashes", len(got), len(want))
			}
			all := host.Stats().Received
			second := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"clusters/c0007/app/f3.yaml": {Content: "changed"}, "clusters/c0009/app/f3.yaml": {}})
			if _, err := bare.Git(t.Context(), "", "repack", "-a", "-d", "-f", "-q"); err != nil {
				t.Fatal(err)
			}
			if got, want := list(t, host, repo, second, ""), gitList(t, bare, second); !maps.Equal(got, want) {
				t.Fatalf("after a foreign commit Tree lists %d files, want %d, or with other names or hashes", len(got), len(want))
			}
			if more := host.Stats().Received - all; more > all/4 {
				t.Errorf("the second fetch brought %d bytes, the first %d: it should bring only what changed", more, all)
			}
		})
	}
}

// A server that knows neither filters nor wants by name serves just as well.
func TestOldServer(t *testing.T) {
	t.Parallel()
	_, bare, repo := server(t)
	for _, key := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
		if err := bare.Config(t.Context(), key, "false"); err != nil {
			t.Fatal(err)
		}
	}
	host := plain.New(plain.Options{})
	at := foreign(t, t.Context(), bare, "main", fleet(50))
	if _, err := bare.Git(t.Context(), "", "repack", "-a", "-d", "-f", "-q"); err != nil {
		t.Fatal(err)
	}
	got := list(t, host, repo, at, "")
	if want := gitList(t, bare, at); !maps.Equal(got, want) {
		t.Fatalf("Tree lists %d files, want %d", len(got), len(want))
	}
	content, err := host.Blob(t.Context(), repo, got["clusters/c0042/app/f7.yaml"])
	if err != nil || !strings.HasPrefix(string(content), "cluster 42 file 7\n") {
		t.Errorf("Blob = %q, %v", content, err)
	}
	if _, err := host.Blob(t.Context(), repo, at); !errs.Is(err, errs.NotFound) {
		t.Errorf("Blob of a commit: %v, want NotFound", err)
	}
	next, err := host.Commit(t.Context(), repo, "main", at, []git.Edit{{Path: "clusters/c0042/app"}}, git.Message{Title: "less"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := list(t, host, repo, next, ""), gitList(t, bare, next); len(want) != 490 || !maps.Equal(got, want) {
		t.Errorf("Tree lists %d files, want %d", len(got), len(want))
	}
}

// History that was rewritten is read like any other.
func TestRewrittenHistory(t *testing.T) {
	t.Parallel()
	_, bare, repo := server(t)
	host := plain.New(plain.Options{})
	first := foreign(t, t.Context(), bare, "main", fleet(5))
	list(t, host, repo, first, "")
	foreign(t, t.Context(), bare, "other", map[string]gittest.File{"clusters/c0001/app/f0.yaml": {Content: "unrelated"}})
	if _, err := bare.Git(t.Context(), "", "update-ref", "refs/heads/main", "refs/heads/other"); err != nil {
		t.Fatal(err)
	}
	head, err := host.Head(t.Context(), repo, "main")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := list(t, host, repo, head, ""), gitList(t, bare, head); !maps.Equal(got, want) {
		t.Errorf("Tree lists %v, want %v", got, want)
	}
}

// The cache stays bounded, and dropped objects are fetched again.
func TestTreesAreSwept(t *testing.T) {
	t.Parallel()
	_, bare, repo := server(t)
	host := plain.New(plain.Options{MaxTrees: 1, MaxRepos: 1})
	at := foreign(t, t.Context(), bare, "main", fleet(20))
	for i := range 5 {
		var err error
		at, err = host.Commit(t.Context(), repo, "main", at, []git.Edit{{Path: "clusters/c0003/app/f1.yaml", File: fmt.Appendf(nil, "v%d", i)}}, git.Message{Title: "v"})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, want := list(t, host, repo, at, "clusters"), gitList(t, bare, at); !maps.Equal(got, want) {
		t.Errorf("Tree lists %d files, want %d", len(got), len(want))
	}
	other := repo
	other.User = "reader"
	other.Token = "r34d"
	if got := list(t, host, other, at, "clusters/c0003"); len(got) != 10 {
		t.Errorf("Tree for another user lists %d files, want 10", len(got))
	}
}

// Trees that were read by one credential are not shown for another.
func TestCacheIsNotSharedBetweenCredentials(t *testing.T) {
	t.Parallel()
	_, bare, repo := server(t)
	host := plain.New(plain.Options{})
	at := foreign(t, t.Context(), bare, "main", fleet(1))
	list(t, host, repo, at, "")
	repo.Token = "wrong"
	for _, err := range host.Tree(context.WithoutCancel(t.Context()), repo, at, "") {
		if !errs.Is(err, errs.Unauthorized) {
			t.Errorf("Tree with a wrong token: %v, want Unauthorized", err)
		}
	}
}
