package fetch_test

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/fetch"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/treecache"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/wire"
)

// repository is a bare repository with two commits: the second changes one of two directories.
type repository struct {
	client        *wire.Client
	repo          git.Repo
	bare          gittest.Bare
	first, second plumbing.Hash
}

func newRepository(t *testing.T) repository {
	t.Helper()
	bare, err := gittest.Init(t.Context(), t.TempDir()+"/r.git", "main")
	if err != nil {
		t.Fatal(err)
	}
	r := repository{bare: bare, repo: git.Repo{URL: "file://" + bare.Dir}, client: &wire.Client{
		Dialer: dial.Dialer{Git: "git"}, File: true, Budget: git.Unlimited{}, MaxFetch: 1 << 20, MaxBlob: 1 << 20, Log: slog.New(slog.DiscardHandler),
	}}
	commit := func(files map[string]gittest.File) plumbing.Hash {
		id, err := bare.CommitExternal(t.Context(), "main", files)
		if err != nil {
			t.Fatal(err)
		}
		return plumbing.NewHash(id)
	}
	r.first = commit(map[string]gittest.File{"a/f": {Content: "one"}, "b/g": {Content: "two"}})
	r.second = commit(map[string]gittest.File{"a/f": {Content: "three"}})
	return r
}

// paths fetches a commit into a cache and returns the paths of its files.
func (r repository) paths(t *testing.T, cache *treecache.Cache, commit plumbing.Hash, haves ...plumbing.Hash) []string {
	t.Helper()
	s, err := cache.Load(t.Context(), commit, func(known *treecache.Store, have []plumbing.Hash) (treecache.Fetched, error) {
		return fetch.Trees(t.Context(), r.client, r.repo, commit, known, append(have, haves...))
	})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	if err := s.Walk("", func(e git.Entry) bool { paths = append(paths, e.Path); return true }); err != nil {
		t.Fatal(err)
	}
	return paths
}

// With a known commit only the trees that differ arrive. If the server leaves out a tree that is not
// known after all, everything is fetched again.
func TestOnlyTreesThatDifferAreFetched(t *testing.T) {
	t.Parallel()
	r, want := newRepository(t), []string{"a/f", "b/g"}
	cache := treecache.New(1 << 20)
	if got := r.paths(t, cache, r.first); !slices.Equal(got, want) {
		t.Fatalf("the first commit holds %v, want %v", got, want)
	}
	before := r.client.Stats()
	if got := r.paths(t, cache, r.second); !slices.Equal(got, want) {
		t.Fatalf("the second commit holds %v, want %v", got, want)
	}
	if n := r.client.Stats().Fetches - before.Fetches; n != 1 {
		t.Errorf("%d packs for the second commit, want one", n)
	}
	before = r.client.Stats()
	if got := r.paths(t, treecache.New(1<<20), r.second, r.first); !slices.Equal(got, want) {
		t.Fatalf("the second commit holds %v for a reader that lost the first, want %v", got, want)
	}
	if n := r.client.Stats().Fetches - before.Fetches; n != 2 {
		t.Errorf("%d packs for a reader that lost the first commit, want two", n)
	}
}

// A commit that the server does not have, and an object that is no commit, are not found.
func TestWhatIsNoCommitIsNotFound(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	blob, err := r.bare.Git(t.Context(), "", "rev-parse", "main:b/g")
	if err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]plumbing.Hash{"a missing commit": plumbing.NewHash("1111111111111111111111111111111111111111"), "a file": plumbing.NewHash(blob)} {
		if _, err := fetch.History(t.Context(), r.client, r.repo, id, 1); err == nil {
			t.Errorf("%s has a history", name)
		}
	}
	if _, err := fetch.Trees(t.Context(), r.client, r.repo, plumbing.NewHash(blob), treecache.NewStore(), nil); !errs.Is(err, errs.NotFound) {
		t.Errorf("the trees of a file: %v, want NotFound", err)
	}
}

// A history is as long as it was asked for, and what came since a commit leaves that commit out.
func TestCommitsAreCounted(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	for depth, want := range map[int]int{0: 1, 1: 1, 2: 2, 9: 2} {
		found, err := fetch.History(t.Context(), r.client, r.repo, r.second, depth)
		if err != nil || len(found) != want {
			t.Errorf("a history of depth %d has %d commits, %v, want %d", depth, len(found), err, want)
		}
	}
	found, err := fetch.Since(t.Context(), r.client, r.repo, r.second, r.first)
	if _, ok := found[git.Hash(r.second.String())]; err != nil || len(found) != 1 || !ok {
		t.Errorf("since the first commit came %v, %v, want the second", found, err)
	}
}
