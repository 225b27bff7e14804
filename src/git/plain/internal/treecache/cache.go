// Package treecache holds the trees of a repository's last commits in memory, names and hashes without the contents of
// files, and the heads of its derived branches (git.DerivedBranch). It also lists the paths that differ between two commits.
package treecache

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git/plain/internal/pack"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

const (
	keepCommits = 32     // cached commits of a repository
	maxHaves    = 8      // cached commits that a fetch offers the server
	maxTips     = 20_000 // cached heads of derived branches; a repository has some thousand of them
)

// Cache holds the trees of some commits of a repository.
//
// A sweep keeps the trees that cached commits reach by building a new store, so that readers of the
// old one are not disturbed.
type Cache struct {
	limit   int64         // bytes of trees
	fetcher chan struct{} // holds a token while a fetch runs

	mu             sync.Mutex
	store          *Store                // guarded by mu
	commits        []Snapshot            // least recently used first; all of store; guarded by mu
	sizeAfterSweep int64                 // size of the store after the last sweep; guarded by mu
	tips           map[plumbing.Hash]Tip // heads of derived branches; guarded by mu
}

// New returns an empty cache for a number of bytes of trees.
func New(limit int64) *Cache {
	return &Cache{limit: limit, fetcher: make(chan struct{}, 1), store: NewStore()}
}

// Fetched is what a server sent of a commit: its root tree, and the trees that were missing.
type Fetched struct {
	Root  plumbing.Hash
	Trees map[plumbing.Hash][]byte
}

// Load returns the trees of a commit. If it is not cached, fetch reads those that known lacks; the
// server has the commits in have. At most one fetch runs at a time: waiting calls look into the
// cache again first.
func (k *Cache) Load(ctx context.Context, commit plumbing.Hash, fetch func(known *Store, have []plumbing.Hash) (Fetched, error)) (Snapshot, error) {
	if s, ok := k.find(commit); ok {
		return s, nil
	}
	select {
	case k.fetcher <- struct{}{}:
		defer func() { <-k.fetcher }()
	case <-ctx.Done():
		return Snapshot{}, ctx.Err()
	}
	if s, ok := k.find(commit); ok {
		return s, nil
	}
	store, have := k.state()
	found, err := fetch(store, have)
	if err != nil {
		return Snapshot{}, err
	}
	for id, raw := range found.Trees {
		store.add(id, raw)
	}
	s := Snapshot{Commit: commit, Root: found.Root, store: store}
	k.mu.Lock()
	defer k.mu.Unlock()
	if store == k.store { // it was not swept meanwhile
		k.rememberLocked(s)
	}
	return s, nil
}

// find returns a cached commit and marks it used.
func (k *Cache) find(commit plumbing.Hash) (Snapshot, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.commits, func(s Snapshot) bool { return s.Commit == commit })
	if i < 0 {
		return Snapshot{}, false
	}
	s := k.commits[i]
	k.commits = append(slices.Delete(k.commits, i, i+1), s)
	return s, true
}

// state returns the store, and the names of the most recently used commits, newest first.
func (k *Cache) state() (*Store, []plumbing.Hash) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var have []plumbing.Hash
	for _, s := range slices.Backward(k.commits) {
		if len(have) < maxHaves {
			have = append(have, s.Commit)
		}
	}
	return k.store, have
}

// Add caches a commit that was built on base, with its new trees. If the store was swept since
// base was read, trees of base may be missing; the commit is not cached then, and the next reader
// fetches it.
func (k *Cache) Add(base Snapshot, commit, root plumbing.Hash, objects []pack.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if base.store != k.store && !base.Root.IsZero() {
		return
	}
	for _, o := range objects {
		if o.Kind == plumbing.TreeObject {
			k.store.add(o.ID, o.Content)
		}
	}
	k.rememberLocked(Snapshot{Commit: commit, Root: root, store: k.store})
}

// rememberLocked appends a commit whose trees are all in the store, and sweeps if due.
func (k *Cache) rememberLocked(s Snapshot) {
	k.commits = append(k.commits, s)
	if over := len(k.commits) - keepCommits; over > 0 {
		k.commits = slices.Clone(k.commits[over:])
	}
	if size := k.store.size(); size > k.limit || size > 2*k.sizeAfterSweep+4<<20 {
		k.sweepLocked()
	}
}

// Forget empties the cache of trees.
func (k *Cache) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.store, k.commits, k.sizeAfterSweep = NewStore(), nil, 0
}

// sweepLocked keeps the trees of the most recently used commits, as many as the limit allows, but at
// least one.
func (k *Cache) sweepLocked() {
	fresh := NewStore()
	var kept []Snapshot
	for _, s := range slices.Backward(k.commits) {
		if k.store.copyTo(fresh, s.Root) != nil {
			continue
		}
		s.store = fresh
		kept = append(kept, s)
		if fresh.size() > k.limit/2 {
			break
		}
	}
	slices.Reverse(kept)
	k.store, k.commits, k.sizeAfterSweep = fresh, kept, fresh.size()
}

// Tip is the head of a derived branch.
type Tip struct {
	Root tree.ID
	Ours bool // we made the commit
}

// AddTips caches heads of derived branches.
func (k *Cache) AddTips(tips map[plumbing.Hash]Tip) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tips == nil || len(k.tips)+len(tips) > maxTips {
		k.tips = map[plumbing.Hash]Tip{}
	}
	maps.Copy(k.tips, tips)
}

// Tip returns a cached head of a derived branch.
func (k *Cache) Tip(commit plumbing.Hash) (Tip, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	tip, ok := k.tips[commit]
	return tip, ok
}
