package treecache

import (
	"errors"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// ErrStopped is the end of a walk whose consumer has enough.
var ErrStopped = errors.New("stopped")

// perTree is what a tree costs in memory besides its bytes: key, header, map slot.
const perTree = 96

// Store holds tree objects by hash. What is in it never changes.
type Store struct {
	mu    sync.RWMutex
	trees map[plumbing.Hash][]byte // guarded by mu
	bytes int64                    // guarded by mu
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{trees: map[plumbing.Hash][]byte{}} }

// Get returns a tree object.
func (s *Store) Get(id plumbing.Hash) ([]byte, bool) {
	if id == plumbing.Hash(tree.Empty) {
		return nil, true
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	raw, ok := s.trees[id]
	return raw, ok
}

func (s *Store) add(id plumbing.Hash, raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.trees[id]; !ok {
		s.trees[id] = raw
		s.bytes += int64(len(raw)) + perTree
	}
}

func (s *Store) size() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.bytes
}

// Tree reads one tree.
func (s *Store) Tree(id tree.ID) (tree.Tree, error) {
	raw, ok := s.Get(plumbing.Hash(id))
	if !ok {
		return nil, tree.Missing(id)
	}
	return tree.Decode(raw)
}

// copyTo adds root and every tree below it to another store, which no one else uses yet. It fails if
// one is missing.
func (s *Store) copyTo(to *Store, root plumbing.Hash) error {
	stack := []plumbing.Hash{root}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		raw, ok := s.Get(id)
		if !ok {
			return tree.Missing(tree.ID(id))
		}
		if _, ok := to.trees[id]; ok {
			continue
		}
		to.add(id, raw)
		entries, err := tree.Decode(raw)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsTree() {
				stack = append(stack, plumbing.Hash(e.ID))
			}
		}
	}
	return nil
}

// Snapshot is a commit, its root tree and a store that holds all trees below it.
type Snapshot struct {
	Commit plumbing.Hash
	Root   plumbing.Hash // zero: nothing at all, the state before a first commit

	store *Store
}

// Nothing returns the state before a first commit.
func Nothing() Snapshot { return Snapshot{store: NewStore()} }

// Tree reads a tree of the snapshot.
func (s Snapshot) Tree(id tree.ID) (tree.Tree, error) { return s.store.Tree(id) }

// entries reads a directory. That before a first commit is empty.
func (s Snapshot) entries(e tree.Entry) (tree.Tree, error) {
	if e.ID.IsZero() {
		return nil, nil
	}
	return s.store.Tree(e.ID)
}

// entry returns the entry at a path; the zero entry if there is none.
func (s Snapshot) entry(path string) (tree.Entry, error) {
	here := tree.Entry{Mode: tree.ModeTree, ID: tree.ID(s.Root)}
	if path == "" {
		return here, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if !here.IsTree() {
			return tree.Entry{}, nil
		}
		entries, err := s.entries(here)
		if err != nil {
			return tree.Entry{}, err
		}
		here = entries.Find(name)
	}
	return here, nil
}

// Walk visits the leaves at or below a path in path order. It returns ErrStopped if visit returns
// false.
func (s Snapshot) Walk(under string, visit func(git.Entry) bool) error {
	here, err := s.entry(under)
	if err != nil {
		return err
	}
	return s.walkEntry(here, under, 0, visit)
}

func (s Snapshot) walkEntry(here tree.Entry, path string, depth int, visit func(git.Entry) bool) error {
	switch {
	case here.Mode == 0:
		return nil
	case depth > tree.MaxDepth:
		return transport.Malformed("a tree, whose directories are nested too deep,")
	case !here.IsTree():
		if !visit(git.Entry{Path: path, Mode: here.Mode, ID: here.ID.Hash()}) {
			return ErrStopped
		}
		return nil
	}
	entries, err := s.store.Tree(here.ID)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.walkEntry(e, tree.Join(path, e.Name), depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}
