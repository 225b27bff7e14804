package plain

import (
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/pack"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/treecache"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/wire"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// commitDraft is a commit that is not sent yet.
type commitDraft struct {
	base   treecache.Snapshot
	trees  *tree.Draft
	root   plumbing.Hash
	commit plumbing.Hash // zero if the edits change nothing
	objectList
}

// newDraft applies edits, which keep git.CheckEdits, to a snapshot.
func newDraft(base treecache.Snapshot, edits []git.Edit, m git.Message) (*commitDraft, error) {
	root := tree.ID(base.Root)
	if root.IsZero() {
		root = tree.Empty
	}
	made, err := tree.Apply(base.Tree, root, tree.NewEdits(edits))
	if err != nil {
		return nil, err
	}
	d := &commitDraft{base: base, trees: made, root: plumbing.Hash(made.Root)}
	if made.Root == root {
		return d, nil
	}
	if m.DryRun {
		return nil, git.ErrDryRun
	}
	d.addObjects(made.ObjectSet)
	d.commit, err = d.addCommit(d.root, base.Commit, m)
	return d, err
}

// changes reports whether there is a commit.
func (d *commitDraft) changes() bool { return !d.commit.IsZero() }

// head is the head of the branch once the draft is pushed; zero if there is no branch then.
func (d *commitDraft) head() plumbing.Hash {
	if d.changes() {
		return d.commit
	}
	return d.base.Commit
}

// push is the push that moves a branch to the commit.
func (d *commitDraft) push(branch string, from plumbing.Hash, m git.Message) wire.PushRequest {
	return wire.PushRequest{
		Updates: []wire.RefUpdate{{Branch: branch, From: from, To: d.commit}},
		Objects: d.objects, Bytes: d.bytes, Guard: m.Guard,
	}
}

// objectList holds the objects of a push, each once, trees after what they hold.
type objectList struct {
	objects []pack.Object
	bytes   int64
}

var kinds = map[tree.Kind]plumbing.ObjectType{tree.Trees: plumbing.TreeObject, tree.Blobs: plumbing.BlobObject}

// addObjects appends objects.
func (c *objectList) addObjects(p tree.ObjectSet) {
	c.objects, c.bytes = slices.Grow(c.objects, len(p.Objects)+1), c.bytes+p.Bytes
	for _, o := range p.Objects {
		c.objects = append(c.objects, pack.Object{Kind: kinds[o.Kind], ID: plumbing.Hash(o.ID), Content: o.Content, Path: o.Path})
	}
}

// addCommit appends the commit of a tree and returns its name.
func (c *objectList) addCommit(root, parent plumbing.Hash, m git.Message) (plumbing.Hash, error) {
	var parents []git.Hash
	if !parent.IsZero() {
		parents = []git.Hash{hashOf(parent)}
	}
	text, _, err := m.Object(hashOf(root), parents...)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	o := pack.NewObject(plumbing.CommitObject, text)
	c.objects, c.bytes = append(c.objects, o), c.bytes+int64(len(text))
	return o.ID, nil
}
