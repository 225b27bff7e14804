package plain

import (
	"maps"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git/tree"
)

// keepCommits is how many commits of a repository are kept at most; they are also
// what a fetch says it has.
const keepCommits = 32

// repoCache is what a host knows of one repository: the trees of some commits.
//
// Trees that no kept commit reaches are swept by building a new store, so that
// whoever works on the old one is not disturbed.
type repoCache struct {
	used    uint64        // guarded by the host's lock
	fetcher chan struct{} // held by the one who fetches

	mu             sync.Mutex
	store          *treeStore
	commits        []snapshot // used longest ago first; all of the present store
	sizeAfterSweep int64      // size of the store after the last sweep
	derivedCommits map[plumbing.Hash]derivedCommit
}

func newRepoCache() *repoCache {
	return &repoCache{fetcher: make(chan struct{}, 1), store: newStore()}
}

// find returns a commit that is known, and marks it used.
func (k *repoCache) find(commit plumbing.Hash) (snapshot, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, s := range k.commits {
		if s.commit == commit {
			k.commits = append(append(k.commits[:i:i], k.commits[i+1:]...), s)
			return s, true
		}
	}
	return snapshot{}, false
}

// state returns the store and the commits whose trees it holds.
func (k *repoCache) state() (*treeStore, []snapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.store, append([]snapshot(nil), k.commits...)
}

// record remembers a commit that was built on base, and the trees that are new in
// it. If the store was swept since base was taken, base may be gone and the commit
// is not remembered: the next reader fetches it.
func (k *repoCache) record(base, s snapshot, trees []object, limit int64) {
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

// remember appends a commit whose trees are all in the store, and sweeps if due.
func (k *repoCache) remember(s snapshot, limit int64) {
	k.commits = append(k.commits, s)
	if over := len(k.commits) - keepCommits; over > 0 {
		k.commits = append([]snapshot(nil), k.commits[over:]...)
	}
	if size := k.store.size(); size > limit || size > 2*k.sizeAfterSweep+4<<20 {
		k.sweep(limit)
	}
}

// forget drops all that is known.
func (k *repoCache) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.store, k.commits, k.sizeAfterSweep = newStore(), nil, 0
}

// sweep keeps the trees of the commits used last, as many of them as the limit
// allows but at least one.
func (k *repoCache) sweep(limit int64) {
	fresh := newStore()
	var kept []snapshot
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
		kept = append([]snapshot{{commit: s.commit, root: s.root, store: fresh}}, kept...)
		if fresh.size() > limit/2 {
			break
		}
	}
	k.store, k.commits, k.sizeAfterSweep = fresh, kept, fresh.size()
}

// derivedCommit is what is known of a commit that a view points at.
type derivedCommit struct {
	root tree.ID
	ours bool
}

// maxViewed bounds the commits of views that are known; a repository has at most some
// thousand views.
const maxDerived = 20_000

// addDerived remembers commits of views.
func (k *repoCache) addDerived(commits map[plumbing.Hash]derivedCommit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.derivedCommits == nil || len(k.derivedCommits)+len(commits) > maxDerived {
		k.derivedCommits = map[plumbing.Hash]derivedCommit{}
	}
	maps.Copy(k.derivedCommits, commits)
}

// derived returns what is known of a commit of a view.
func (k *repoCache) derived(commit plumbing.Hash) (derivedCommit, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.derivedCommits[commit]
	return v, ok
}
