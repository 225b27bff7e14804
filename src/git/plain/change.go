package plain

import (
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// change is what a set of edits makes of a snapshot, as a push sends it.
type change struct {
	draft *tree.Draft
	root  plumbing.Hash
	cargo
}

// cargo is objects on their way, each once, what they hold before them.
type cargo struct {
	objs  []object
	bytes int64
}

// carry appends objects.
func (c *cargo) carry(p tree.ObjectSet) {
	c.objs, c.bytes = slices.Grow(c.objs, len(p.Objects)+1), c.bytes+p.Bytes
	for _, o := range p.Objects {
		c.objs = append(c.objs, object{kind: kinds[o.Kind], id: plumbing.Hash(o.ID), content: o.Content, path: o.Path})
	}
}

var kinds = map[tree.Kind]plumbing.ObjectType{tree.Trees: plumbing.TreeObject, tree.Blobs: plumbing.BlobObject}

// seal appends the commit of a tree, and returns its name.
func (c *cargo) seal(root, parent plumbing.Hash, m git.Message) (plumbing.Hash, error) {
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

// newChange applies edits, which keep git.CheckEdits, to a snapshot.
func newChange(base snapshot, edits []git.Edit) (*change, error) {
	root := tree.ID(base.root)
	if root.IsZero() {
		root = tree.Empty
	}
	read := func(id tree.ID) (tree.Tree, error) { return base.store.entries(plumbing.Hash(id)) }
	d, err := tree.Apply(read, root, tree.NewEdits(edits))
	if err != nil {
		return nil, err
	}
	c := &change{draft: d, root: plumbing.Hash(d.Root)}
	c.carry(d.ObjectSet)
	return c, nil
}

// trees returns the new trees.
func (c *change) trees() []object {
	return slices.DeleteFunc(slices.Clone(c.objs), func(o object) bool { return o.kind != plumbing.TreeObject })
}
