package github

import (
	"iter"
	"sync"

	"github.com/emco-orchestrator/emco/src/git/tree"
)

// repoCache holds known objects of one repository: trees with their content, and names of files.
// All were read from the server, or made there.
type repoCache struct {
	mu          sync.Mutex
	trees       boundedCache[tree.Tree]    // guarded by mu
	blobs       boundedCache[struct{}]     // files that the server got from us; guarded by mu
	roots       map[tree.ID]tree.ID        // trees of commits; guarded by mu
	derivedTips map[tree.ID]tree.BranchTip // guarded by mu
}

const (
	maxRoots = 1024
	blobCost = 64      // bytes of memory for the name of a file
	blobRoom = 8 << 20 // bytes of memory for names of files
)

func newRepoCache(room int64) *repoCache {
	return &repoCache{trees: boundedCache[tree.Tree]{room: room}, blobs: boundedCache[struct{}]{room: blobRoom}, roots: map[tree.ID]tree.ID{}}
}

// Tree returns a cached tree.
func (k *repoCache) Tree(id tree.ID) (tree.Tree, bool) {
	if id == tree.Empty {
		return nil, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.trees.get(id)
}

// Blob reports whether the server is known to have a file.
func (k *repoCache) Blob(id tree.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.blobs.get(id)
	return ok
}

// empty reports whether no tree is cached.
func (k *repoCache) empty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.trees.empty()
}

// addTrees caches trees.
func (k *repoCache) addTrees(all map[tree.ID]tree.Tree) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, t := range all {
		k.trees.put(id, t, sizeOf(t))
	}
}

// addBlobs records that the server has files.
func (k *repoCache) addBlobs(ids iter.Seq[tree.ID]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range ids {
		k.blobs.put(id, struct{}{}, blobCost)
	}
}

// root returns the tree of a commit, if it is cached.
func (k *repoCache) root(commit tree.ID) (tree.ID, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	root, ok := k.roots[commit]
	return root, ok
}

func (k *repoCache) addRoot(commit, root tree.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.roots) >= maxRoots {
		clear(k.roots)
	}
	k.roots[commit] = root
}

// forget empties the cache.
func (k *repoCache) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trees.clear()
	k.blobs.clear()
	clear(k.roots)
}

// boundedCache holds values within a bound of bytes: the young, which were used since the last
// turn, and the old, which go when the young fill half of the bound.
type boundedCache[V any] struct {
	room       int64 // bytes of both
	young, old map[tree.ID]cacheEntry[V]
	bytes      int64 // of the young
}

type cacheEntry[V any] struct {
	value V
	bytes int64
}

func (m *boundedCache[V]) get(id tree.ID) (V, bool) {
	if v, ok := m.young[id]; ok {
		return v.value, true
	}
	v, ok := m.old[id]
	if ok {
		m.put(id, v.value, v.bytes)
	}
	return v.value, ok
}

func (m *boundedCache[V]) put(id tree.ID, value V, bytes int64) {
	if _, ok := m.young[id]; ok {
		return
	}
	if m.young == nil || m.bytes+bytes > m.room/2 {
		m.old, m.young, m.bytes = m.young, map[tree.ID]cacheEntry[V]{}, 0
	}
	m.young[id] = cacheEntry[V]{value: value, bytes: bytes}
	m.bytes += bytes
}

func (m *boundedCache[V]) empty() bool { return len(m.young)+len(m.old) == 0 }

func (m *boundedCache[V]) clear() { m.young, m.old, m.bytes = nil, nil, 0 }

// sizeOf estimates the memory of a tree in bytes.
func sizeOf(t tree.Tree) int64 {
	n := int64(96)
	for _, e := range t {
		n += int64(48 + len(e.Name))
	}
	return n
}

// maxDerived bounds the cached heads of derived branches.
const maxDerived = 20_000

// derived returns a cached head of a derived branch.
func (k *repoCache) derived(commit tree.ID) (tree.BranchTip, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.derivedTips[commit]
	return v, ok
}

func (k *repoCache) addDerived(commit tree.ID, v tree.BranchTip) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.derivedTips == nil || len(k.derivedTips) >= maxDerived {
		k.derivedTips = map[tree.ID]tree.BranchTip{}
	}
	k.derivedTips[commit] = v
}
