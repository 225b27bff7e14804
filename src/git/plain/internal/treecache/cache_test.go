package treecache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/pack"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/treecache"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// commit n has a tree of one directory with width files.
func commit(n, width int) (plumbing.Hash, treecache.Fetched) {
	var files tree.Tree
	for i := range width {
		files = append(files, tree.Entry{Name: fmt.Sprintf("f%04d", i), Mode: tree.ModeFile, ID: tree.ObjectID(tree.Blobs, fmt.Append(nil, n))})
	}
	root := tree.Tree{{Name: "dir", Mode: tree.ModeTree, ID: files.ID()}}
	return plumbing.ComputeHash(plumbing.CommitObject, fmt.Append(nil, n)), treecache.Fetched{
		Root:  plumbing.Hash(root.ID()),
		Trees: map[plumbing.Hash][]byte{plumbing.Hash(root.ID()): root.Encode(), plumbing.Hash(files.ID()): files.Encode()},
	}
}

// server counts what a cache fetches from it.
type server struct {
	cache   *treecache.Cache
	fetched int // guarded by the cache: one fetch at a time
	have    []plumbing.Hash
}

func (s *server) load(t *testing.T, n, width int) treecache.Snapshot {
	t.Helper()
	id, content := commit(n, width)
	got, err := s.cache.Load(t.Context(), id, func(_ *treecache.Store, have []plumbing.Hash) (treecache.Fetched, error) {
		s.fetched++
		s.have = have
		return content, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	if err := got.Walk("dir", func(e git.Entry) bool { paths = append(paths, e.Path); return true }); err != nil || len(paths) != width || !slices.IsSorted(paths) {
		t.Fatalf("commit %d has the files %v, %v; want %d", n, paths, err, width)
	}
	return got
}

// Calls that want one commit at the same time fetch it once; later ones find it.
func TestACommitIsFetchedOnce(t *testing.T) {
	t.Parallel()
	s := &server{cache: treecache.New(1 << 20)}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { s.load(t, 1, 3) })
	}
	all.Wait()
	s.load(t, 1, 3)
	if s.fetched != 1 {
		t.Errorf("fetched %d times, want once", s.fetched)
	}
	first, _ := commit(1, 3)
	if s.load(t, 2, 3); !slices.Equal(s.have, []plumbing.Hash{first}) {
		t.Errorf("the second fetch offers %v, want %v", s.have, first)
	}
}

// A call that waits for another's fetch ends with its own context, and a failed fetch is repeated.
func TestAWaitingCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := &server{cache: treecache.New(1 << 20)}
	id, _ := commit(1, 1)
	fail := errors.New("the server is down")
	_, err := s.cache.Load(t.Context(), id, func(*treecache.Store, []plumbing.Hash) (treecache.Fetched, error) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.cache.Load(ctx, id, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the waiting call: %v, want Canceled", err)
		}
		return treecache.Fetched{}, fail
	})
	if !errors.Is(err, fail) {
		t.Errorf("the fetching call: %v, want its error", err)
	}
	s.load(t, 1, 1)
}

// Above the limit the commits used last stay, whole; a snapshot that was read before stays readable.
func TestTheCommitsUsedLastStay(t *testing.T) {
	t.Parallel()
	s := &server{cache: treecache.New(40 << 10)} // room for some of ten commits
	old := s.load(t, 0, 300)
	for n := range 10 {
		s.load(t, n, 300)
	}
	if before := s.fetched; s.load(t, 9, 300).Commit.IsZero() || s.fetched != before {
		t.Error("the newest commit is fetched again")
	}
	before := s.fetched
	if s.load(t, 1, 300); s.fetched != before+1 {
		t.Error("an old commit is still there")
	}
	if err := old.Walk("", func(git.Entry) bool { return true }); err != nil {
		t.Errorf("a snapshot after a sweep: %v", err)
	}
	s.cache.Forget()
	before = s.fetched
	if s.load(t, 9, 300); s.fetched != before+1 || len(s.have) > 0 {
		t.Errorf("after Forget: %d fetches with %d known commits, want one with none", s.fetched-before, len(s.have))
	}
}

// A commit that was built on a cached one is found without a fetch; on one that is gone it is not
// cached, since trees may be missing.
func TestACommitOnACachedOneIsFound(t *testing.T) {
	t.Parallel()
	s := &server{cache: treecache.New(1 << 20)}
	base := s.load(t, 1, 2)
	add := func(base treecache.Snapshot, n int) {
		id, content := commit(n, 2)
		var objects []pack.Object
		for name, raw := range content.Trees {
			objects = append(objects, pack.Object{Kind: plumbing.TreeObject, ID: name, Content: raw})
		}
		s.cache.Add(base, id, content.Root, append(objects, pack.NewObject(plumbing.BlobObject, []byte("x"))))
	}
	add(base, 2)
	after := s.load(t, 2, 2)
	if s.fetched != 1 {
		t.Errorf("%d fetches, want one", s.fetched)
	}
	paths, err := treecache.Changed(base, after, "", 10)
	if err != nil || strings.Join(paths, " ") != "dir/f0000 dir/f0001" {
		t.Errorf("changed are %v, %v", paths, err)
	}
	s.cache.Forget()
	add(base, 3)
	if s.load(t, 3, 2); s.fetched != 2 {
		t.Errorf("%d fetches, want a second one for the commit on a base that is gone", s.fetched)
	}
}
