package plain

import (
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// treeChange is the outcome of edits, as a push sends it.
type treeChange struct {
	draft *tree.Draft
	root  plumbing.Hash
	objectList
}

// objectList holds the objects of a push, each once, trees after what they hold.
type objectList struct {
	objs  []gitObject
	bytes int64
}

// addObjects appends objects.
func (c *objectList) addObjects(p tree.ObjectSet) {
	c.objs, c.bytes = slices.Grow(c.objs, len(p.Objects)+1), c.bytes+p.Bytes
	for _, o := range p.Objects {
		c.objs = append(c.objs, gitObject{kind: kinds[o.Kind], id: plumbing.Hash(o.ID), content: o.Content, path: o.Path})
	}
}

var kinds = map[tree.Kind]plumbing.ObjectType{tree.Trees: plumbing.TreeObject, tree.Blobs: plumbing.BlobObject}

// addCommit appends the commit of a tree and returns its name.
func (c *objectList) addCommit(root, parent plumbing.Hash, m git.Message) (plumbing.Hash, error) {
	var parents []git.Hash
	if !parent.IsZero() {
		parents = []git.Hash{git.Hash(parent.String())}
	}
	text, _, err := m.Object(git.Hash(root.String()), parents...)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	o := newObject(plumbing.CommitObject, text)
	c.objs, c.bytes = append(c.objs, o), c.bytes+int64(len(text))
	return o.id, nil
}

// newTreeChange applies edits, which keep git.CheckEdits, to a snapshot.
func newTreeChange(base commitTrees, edits []git.Edit) (*treeChange, error) {
	root := tree.ID(base.root)
	if root.IsZero() {
		root = tree.Empty
	}
	read := func(id tree.ID) (tree.Tree, error) { return base.store.entries(plumbing.Hash(id)) }
	d, err := tree.Apply(read, root, tree.NewEdits(edits))
	if err != nil {
		return nil, err
	}
	c := &treeChange{draft: d, root: plumbing.Hash(d.Root)}
	c.addObjects(d.ObjectSet)
	return c, nil
}

// trees returns the new trees.
func (c *treeChange) trees() []gitObject {
	return slices.DeleteFunc(slices.Clone(c.objs), func(o gitObject) bool { return o.kind != plumbing.TreeObject })
}
