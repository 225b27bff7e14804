package tree_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Names that would make a path lead elsewhere are refused when a tree is read.
func TestTreesWithUnsafeNamesAreRefused(t *testing.T) {
	t.Parallel()
	id := tree.ObjectID(tree.Blobs, []byte("x"))
	for name, ok := range map[string]bool{"a": true, "..a": true, ".git": true, ".": false, "..": false, "": false, "a/b": false} {
		raw := tree.Tree{{Name: name, Mode: tree.ModeFile, ID: id}}.Encode()
		got, err := tree.Decode(raw)
		if ok != (err == nil) || ok && got[0].Name != name || !ok && !errs.Is(err, errs.Unavailable) {
			t.Errorf("a tree with the name %q: %v, %v, want it read: %v", name, got, err, ok)
		}
	}
}

// memory holds trees for tree.Apply.
type memory map[tree.ID]tree.Tree

func (m memory) read(id tree.ID) (tree.Tree, error) {
	if t, ok := m[id]; ok {
		return t, nil
	}
	return nil, tree.Missing(id)
}

func (m memory) add(entries ...tree.Entry) tree.ID {
	t := tree.Sort(entries)
	m[t.ID()] = t
	return t.ID()
}

// entry returns the entry at a path of a draft.
func entry(t *testing.T, d *tree.Draft, path string) tree.Entry {
	t.Helper()
	here := tree.Entry{Mode: tree.ModeTree, ID: d.Root}
	for name := range strings.SplitSeq(path, "/") {
		entries, err := d.Tree(here.ID)
		if err != nil {
			t.Fatal(err)
		}
		here = entries.Find(name)
	}
	return here
}

// Clusters share the map of their files. Files that one of them has made executable keep that mode
// there, and only there.
func TestModesOfOneDirectoryStayInIt(t *testing.T) {
	t.Parallel()
	const executable = 0o100755
	m := memory{}
	old := tree.ObjectID(tree.Blobs, []byte("old"))
	one := m.add(tree.Entry{Name: "run", Mode: executable, ID: old})
	two := m.add(tree.Entry{Name: "run", Mode: tree.ModeFile, ID: old})
	root := m.add(tree.Entry{Name: "one", Mode: tree.ModeTree, ID: one}, tree.Entry{Name: "two", Mode: tree.ModeTree, ID: two})
	shared := map[string][]byte{"run": []byte("new")}
	d, err := tree.Apply(m.read, root, tree.NewEdits([]git.Edit{{Path: "one", Dir: shared}, {Path: "two", Dir: shared}, {Path: "three", Dir: shared}}))
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]uint32{"one/run": executable, "two/run": tree.ModeFile, "three/run": tree.ModeFile} {
		if got := entry(t, d, path); got.Mode != mode || got.ID != tree.ObjectID(tree.Blobs, []byte("new")) {
			t.Errorf("%s is %+v, want mode %o and the new content", path, got, mode)
		}
	}
}

// A file whose mode alone differs is another entry.
func TestAnotherModeIsAnotherEntry(t *testing.T) {
	t.Parallel()
	id := tree.ObjectID(tree.Blobs, []byte("x"))
	plain, executable := tree.Entry{Name: "f", Mode: tree.ModeFile, ID: id}, tree.Entry{Name: "f", Mode: 0o100755, ID: id}
	if plain.Is(executable) || !plain.Is(plain) {
		t.Error("entries are compared by their objects alone")
	}
}

// Only what edits name is read and made.
func TestUntouchedDirectoriesAreNotRead(t *testing.T) {
	t.Parallel()
	m := memory{}
	f := tree.Entry{Name: "f", Mode: tree.ModeFile, ID: tree.ObjectID(tree.Blobs, []byte("x"))}
	unread := tree.Tree{f}.ID() // not in memory: reading it fails
	root := m.add(tree.Entry{Name: "other", Mode: tree.ModeTree, ID: unread}, f)
	d, err := tree.Apply(m.read, root, tree.NewEdits([]git.Edit{{Path: "f", File: []byte("y")}}))
	if err != nil {
		t.Fatal(err)
	}
	if kinds := slices.Collect(func(yield func(tree.Kind) bool) {
		for _, o := range d.Objects {
			yield(o.Kind)
		}
	}); !slices.Equal(kinds, []tree.Kind{tree.Blobs, tree.Trees}) {
		t.Errorf("new objects are %v, want a file and its root", kinds)
	}
}
