package tree

import (
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// DerivedTrees makes the trees of derived branches. Only the trees above their directories are new.
type DerivedTrees struct {
	ObjectSet // in addition to those of the draft

	draft *Draft
	known map[ID]Tree
}

// Derived returns the trees of branches that are derived from the draft.
func (d *Draft) Derived() *DerivedTrees {
	return &DerivedTrees{ObjectSet: ObjectSet{below: &d.ObjectSet}, draft: d, known: map[ID]Tree{Empty: nil}}
}

// BranchTip is the head of a derived branch.
type BranchTip struct {
	Commit git.Hash
	Root   ID
	Ours   bool // we made the commit
}

// DerivedChange is a derived branch that must move.
type DerivedChange struct {
	Derived git.DerivedBranch
	From    git.Hash // its head; empty if it does not exist
	Root    ID       // its new tree
	Dir     ID       // its directory; zero if that does not exist
}

// Due returns the derived branches that must move, given their current heads, which lack branches
// that do not exist; and the result except for their new heads.
func (g *DerivedTrees) Due(derived []git.DerivedBranch, at map[string]BranchTip) ([]DerivedChange, git.DerivedResult, error) {
	shown := git.DerivedResult{Heads: map[string]git.Hash{}}
	var due []DerivedChange
	for _, v := range derived {
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

// Removable returns the derived branches to remove that exist. Branches with the commits of others
// are reported as diverged.
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

// derivedTree returns a branch's directory, zero if it does not exist, and the tree that holds it
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

// emptyTree returns the tree of a branch whose directory does not exist.
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

// find returns the entry at a path of the draft, the zero entry without one.
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
