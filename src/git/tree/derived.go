package tree

import (
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// DerivedTrees makes the trees of views: all that is new in them are the trees above what they
// show.
type DerivedTrees struct {
	ObjectSet // besides the draft's

	draft *Draft
	known map[ID]Tree
}

// Derived returns a gallery that shows the draft's tree.
func (d *Draft) Derived() *DerivedTrees {
	return &DerivedTrees{ObjectSet: ObjectSet{below: &d.ObjectSet}, draft: d, known: map[ID]Tree{Empty: nil}}
}

// BranchTip is where a view is.
type BranchTip struct {
	Commit git.Hash
	Root   ID
	Ours   bool // we made the commit
}

// DerivedChange is a view that does not show what it should.
type DerivedChange struct {
	Derived git.DerivedBranch
	From    git.Hash // where it is; empty if it is not there
	Root    ID       // the tree that it is to have
	Dir     ID       // the directory that it shows; zero if that is not there
}

// Due returns the views that have to be moved, by where they are, which are none that are
// not in at; and what there is to be told of them, but for where they are moved to.
func (g *DerivedTrees) Due(views []git.DerivedBranch, at map[string]BranchTip) ([]DerivedChange, git.DerivedResult, error) {
	shown := git.DerivedResult{Heads: map[string]git.Hash{}}
	var due []DerivedChange
	for _, v := range views {
		shows, root, err := g.derivedTree(v)
		if err != nil {
			return nil, shown, err
		}
		now, there := at[v.Branch]
		switch {
		case there && now.Root == root:
			shown.Heads[v.Branch] = now.Commit
			continue
		case !there:
			shown.Created = append(shown.Created, v.Branch)
		case !now.Ours:
			shown.Diverged = append(shown.Diverged, v.Branch)
		}
		due = append(due, DerivedChange{Derived: v, From: now.Commit, Root: root, Dir: shows})
	}
	slices.Sort(shown.Created)
	slices.Sort(shown.Diverged)
	return due, shown, nil
}

// Removable returns which of the views that nobody reads any more are there to be removed. What
// else goes by their names is told of as strange.
func Removable(gone []string, at map[string]BranchTip, shown *git.DerivedResult) (due []string) {
	for _, name := range gone {
		switch now, there := at[name]; {
		case !there:
		case now.Ours:
			due = append(due, name)
		default:
			shown.Diverged = append(shown.Diverged, name)
		}
	}
	slices.Sort(shown.Diverged)
	return due
}

// derivedTree returns a view's directory, zero if it is not there, and the tree that holds that
// and nothing else.
func (g *DerivedTrees) derivedTree(v git.DerivedBranch) (shows, root ID, err error) {
	here, err := g.find(v.Dir)
	if err != nil {
		return ID{}, ID{}, err
	}
	if !here.IsTree() {
		root, err = g.emptyTree(v)
		return ID{}, root, err
	}
	shows = here.ID
	names := strings.Split(v.Dir, "/")
	for _, name := range slices.Backward(names) {
		here = dir(g.tree(Tree{{Name: name, Mode: ModeTree, ID: here.ID}}))
	}
	return shows, here.ID, nil
}

// emptyTree returns the tree of a view of a directory that is not there.
func (g *DerivedTrees) emptyTree(v git.DerivedBranch) (ID, error) {
	d, err := Apply(nil, Empty, NewEdits([]git.Edit{{Path: v.Dir, Dir: v.Empty}}))
	if err != nil {
		return ID{}, err
	}
	if d.Root == Empty {
		g.add(Object{Kind: Trees, ID: Empty})
	}
	for _, o := range d.Objects {
		g.add(o)
	}
	return d.Root, nil
}

// find returns what is at a path of the draft, the zero entry if there is nothing.
func (g *DerivedTrees) find(path string) (Entry, error) {
	here := Entry{Mode: ModeTree, ID: g.draft.Root}
	for name := range strings.SplitSeq(path, "/") {
		if !here.IsTree() {
			return Entry{}, nil
		}
		t, err := g.entries(here.ID)
		if err != nil {
			return Entry{}, err
		}
		here = t.Find(name)
	}
	return here, nil
}

func (g *DerivedTrees) entries(id ID) (t Tree, err error) {
	t, ok := g.known[id]
	if ok {
		return t, nil
	}
	if t, err = g.draft.Tree(id); err == nil {
		g.known[id] = t
	}
	return t, err
}
