package plain

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Git's modes.
const (
	modeTree = 0o040000
	modeFile = 0o100644
	modeLink = 0o120000
	modeSub  = 0o160000
	modeType = 0o170000
)

// maxDepth bounds how deep trees may nest, so that a hostile server cannot
// exhaust the stack.
const maxDepth = 256

var (
	emptyTree  = plumbing.NewHash("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
	errStopped = errors.New("stopped") // the consumer of an iteration has enough
)

// entry is one line of a tree object.
type entry struct {
	name string
	mode uint32
	id   plumbing.Hash
}

func (e entry) isTree() bool { return e.mode&modeType == modeTree }

// isFile says whether an entry is a regular file; the zero entry is not.
func (e entry) isFile() bool { return e.mode&modeType == modeFile&modeType }

// isForeign says whether an entry leads out of the tree: a symbolic link or a submodule.
func (e entry) isForeign() bool { return e.mode&modeType == modeLink || e.mode&modeType == modeSub }

// decodeTree splits a tree object into entries, whose names share raw's memory no more.
func decodeTree(raw []byte) ([]entry, error) {
	entries := make([]entry, 0, len(raw)/40+1)
	for len(raw) > 0 {
		mode, rest, ok := bytes.Cut(raw, []byte{' '})
		name, tail, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(mode) > 7 || len(tail) < 20 {
			return nil, malformed("a tree object")
		}
		m, err := strconv.ParseUint(string(mode), 8, 32)
		if err != nil || !soundName(name) {
			return nil, malformed("a tree object")
		}
		entries = append(entries, entry{name: string(name), mode: uint32(m), id: plumbing.Hash(tail[:20])})
		raw = tail[20:]
	}
	return entries, nil
}

// soundName refuses names that would make a path mean something else.
func soundName(name []byte) bool {
	return len(name) > 0 && !bytes.ContainsRune(name, '/') && string(name) != "." && string(name) != ".."
}

// encodeTree sorts entries as Git does, a directory as if its name ended in a
// slash, and returns the tree object.
func encodeTree(entries []entry) []byte {
	slices.SortFunc(entries, compareEntries)
	size := 0
	for _, e := range entries {
		size += len(e.name) + 28
	}
	raw := make([]byte, 0, size)
	for _, e := range entries {
		raw = strconv.AppendUint(raw, uint64(e.mode), 8)
		raw = append(raw, ' ')
		raw = append(raw, e.name...)
		raw = append(raw, 0)
		raw = append(raw, e.id[:]...)
	}
	return raw
}

func compareEntries(a, b entry) int {
	n := min(len(a.name), len(b.name))
	if c := strings.Compare(a.name[:n], b.name[:n]); c != 0 {
		return c
	}
	return int(a.next(n)) - int(b.next(n))
}

// next is the byte at position n of the name that Git sorts by.
func (e entry) next(n int) byte {
	switch {
	case n < len(e.name):
		return e.name[n]
	case e.isTree():
		return '/'
	}
	return 0
}

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
func (s *treeStore) entries(id plumbing.Hash) ([]entry, error) {
	raw, ok := s.get(id)
	if !ok {
		return nil, errs.E(errs.Unavailable, "read", "", fmt.Errorf("tree %s is missing", id))
	}
	return decodeTree(raw)
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
			return errs.E(errs.Unavailable, "read", "", fmt.Errorf("tree %s is missing", id))
		}
		if !visit(id, raw) {
			continue
		}
		entries, err := decodeTree(raw)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.isTree() {
				stack = append(stack, e.id)
			}
		}
	}
	return nil
}

// snapshot is a commit, its root tree and a store that holds all trees below it.
type snapshot struct {
	commit plumbing.Hash
	root   plumbing.Hash // zero: nothing at all, the state before a first commit
	store  *treeStore
}

// walk visits the leaves at or below a path in path order.
func (s snapshot) walk(under string, visit func(git.Entry) bool) error {
	here := entry{mode: modeTree, id: s.root}
	if under != "" {
		for name := range strings.SplitSeq(under, "/") {
			if !here.isTree() {
				return nil
			}
			entries, err := s.store.entries(here.id)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
			if i < 0 {
				return nil
			}
			here = entries[i]
		}
	}
	return s.walkEntry(here, under, 0, visit)
}

func (s snapshot) walkEntry(here entry, path string, depth int, visit func(git.Entry) bool) error {
	if !here.isTree() {
		if !visit(git.Entry{Path: path, Mode: here.mode, ID: git.Hash(here.id.String())}) {
			return errStopped
		}
		return nil
	}
	if depth > maxDepth {
		return malformed("trees nested too deep")
	}
	entries, err := s.store.entries(here.id)
	if err != nil {
		return err
	}
	for _, e := range entries {
		below := e.name
		if path != "" {
			below = path + "/" + e.name
		}
		if err := s.walkEntry(e, below, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}
