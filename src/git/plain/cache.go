package plain

import (
	"maps"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git/tree"
)

// keepCommits bounds the cached commits of a repository; a fetch names them as haves.
const keepCommits = 32

// repoCache holds the trees of some commits of a repository.
//
// A sweep keeps the trees that cached commits reach by building a new store, so that readers of the
// old one are not disturbed.
type repoCache struct {
	used    uint64        // guarded by Host.mu
	fetcher chan struct{} // holds a token while a fetch runs

	mu             sync.Mutex
	store          *treeStore
	commits        []commitTrees // least recently used first; all of store
	sizeAfterSweep int64         // size of the store after the last sweep
	derivedCommits map[plumbing.Hash]derivedCommit
}

func newRepoCache() *repoCache {
	return &repoCache{fetcher: make(chan struct{}, 1), store: newStore()}
}

// find returns a cached commit and marks it used.
func (k *repoCache) find(commit plumbing.Hash) (commitTrees, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, s := range k.commits {
		if s.commit == commit {
			k.commits = append(append(k.commits[:i:i], k.commits[i+1:]...), s)
			return s, true
		}
	}
	return commitTrees{}, false
}

// state returns the store and the commits whose trees it holds.
func (k *repoCache) state() (*treeStore, []commitTrees) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.store, append([]commitTrees(nil), k.commits...)
}

// record caches a commit that was built on base, with its new trees. If the store was swept since
// base was read, trees of base may be missing; the commit is not cached then, and the next reader
// fetches it.
func (k *repoCache) record(base, s commitTrees, trees []gitObject, limit int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if base.root.IsZero() {
		base.store = k.store
	}
	if base.store != k.store {
		return
	}
	for _, t := range trees {
		k.store.add(t.id, t.content)
	}
	s.store = k.store
	k.remember(s, limit)
}

// remember appends a commit whose trees are all in the store, and sweeps if due. The caller holds
// mu.
func (k *repoCache) remember(s commitTrees, limit int64) {
	k.commits = append(k.commits, s)
	if over := len(k.commits) - keepCommits; over > 0 {
		k.commits = append([]commitTrees(nil), k.commits[over:]...)
	}
	if size := k.store.size(); size > limit || size > 2*k.sizeAfterSweep+4<<20 {
		k.sweep(limit)
	}
}

// forget empties the cache.
func (k *repoCache) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.store, k.commits, k.sizeAfterSweep = newStore(), nil, 0
}

// sweep keeps the trees of the most recently used commits, as many as the limit allows, but at
// least one. The caller holds mu.
func (k *repoCache) sweep(limit int64) {
	fresh := newStore()
	var kept []commitTrees
	for i := len(k.commits) - 1; i >= 0; i-- {
		s := k.commits[i]
		err := k.store.reach(s.root, func(id plumbing.Hash, raw []byte) bool {
			if _, ok := fresh.trees[id]; ok {
				return false
			}
			fresh.add(id, raw)
			return true
		})
		if err != nil {
			continue
		}
		kept = append([]commitTrees{{commit: s.commit, root: s.root, store: fresh}}, kept...)
		if fresh.size() > limit/2 {
			break
		}
	}
	k.store, k.commits, k.sizeAfterSweep = fresh, kept, fresh.size()
}

// derivedCommit is a cached head of a derived branch.
type derivedCommit struct {
	root tree.ID
	ours bool
}

// maxDerived bounds the cached heads of derived branches; a repository has some thousand such
// branches.
const maxDerived = 20_000

// addDerived caches heads of derived branches.
func (k *repoCache) addDerived(commits map[plumbing.Hash]derivedCommit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.derivedCommits == nil || len(k.derivedCommits)+len(commits) > maxDerived {
		k.derivedCommits = map[plumbing.Hash]derivedCommit{}
	}
	maps.Copy(k.derivedCommits, commits)
}

// derived returns a cached head of a derived branch.
func (k *repoCache) derived(commit plumbing.Hash) (derivedCommit, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.derivedCommits[commit]
	return v, ok
}
