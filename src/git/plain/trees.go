package plain

import (
	"errors"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

var (
	emptyTree  = plumbing.Hash(tree.Empty)
	errStopped = errors.New("stopped") // the consumer of an iteration has enough
)

// treeStore holds tree objects by hash. What is in it never changes.
type treeStore struct {
	mu    sync.RWMutex
	trees map[plumbing.Hash][]byte
	bytes int64
}

// perTree is what a tree costs in memory besides its bytes: key, header, map slot.
const perTree = 96

func newStore() *treeStore { return &treeStore{trees: map[plumbing.Hash][]byte{}} }

func (s *treeStore) get(id plumbing.Hash) ([]byte, bool) {
	if id == emptyTree {
		return nil, true
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	raw, ok := s.trees[id]
	return raw, ok
}

func (s *treeStore) add(id plumbing.Hash, raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.trees[id]; !ok {
		s.trees[id] = raw
		s.bytes += int64(len(raw)) + perTree
	}
}

func (s *treeStore) size() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.bytes
}

// entries reads one tree.
func (s *treeStore) entries(id plumbing.Hash) (tree.Tree, error) {
	raw, ok := s.get(id)
	if !ok {
		return nil, tree.Missing(tree.ID(id))
	}
	return tree.Decode(raw)
}

// reach calls visit for root and every tree below it, each once. It fails if one
// is missing. visit returns false to leave out what is below.
func (s *treeStore) reach(root plumbing.Hash, visit func(plumbing.Hash, []byte) bool) error {
	stack := []plumbing.Hash{root}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		raw, ok := s.get(id)
		if !ok {
			return tree.Missing(tree.ID(id))
		}
		if !visit(id, raw) {
			continue
		}
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

// commitTrees is a commit, its root tree and a store that holds all trees below it.
type commitTrees struct {
	commit plumbing.Hash
	root   plumbing.Hash // zero: nothing at all, the state before a first commit
	store  *treeStore
}

// entries reads a directory. That before a first commit is empty.
func (s commitTrees) entries(e tree.Entry) (tree.Tree, error) {
	if e.ID == (tree.ID{}) {
		return nil, nil
	}
	return s.store.entries(plumbing.Hash(e.ID))
}

// entry returns the entry at a path; the zero entry if there is none.
func (s commitTrees) entry(path string) (tree.Entry, error) {
	here := tree.Entry{Mode: tree.ModeTree, ID: tree.ID(s.root)}
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

// walk visits the leaves at or below a path in path order.
func (s commitTrees) walk(under string, visit func(git.Entry) bool) error {
	here, err := s.entry(under)
	if err != nil {
		return err
	}
	return s.walkEntry(here, under, 0, visit)
}

func (s commitTrees) walkEntry(here tree.Entry, path string, depth int, visit func(git.Entry) bool) error {
	switch {
	case here.Mode == 0:
		return nil
	case depth > tree.MaxDepth:
		return malformed("trees nested too deep")
	case !here.IsTree():
		if !visit(git.Entry{Path: path, Mode: here.Mode, ID: here.ID.Hash()}) {
			return errStopped
		}
		return nil
	}
	entries, err := s.store.entries(plumbing.Hash(here.ID))
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
