package github

import (
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/git/tree"
)

// treeDraft is the outcome of edits, by the names of objects.
type treeDraft struct {
	*tree.Draft
	old   map[tree.ID]tree.Tree // read from the server
	fresh map[tree.ID]tree.Tree // new, and not in old
	blobs map[tree.ID][]byte    // new files
}

// newTreeDraft applies edits to a tree. All trees along the edited paths are in old.
func newTreeDraft(old map[tree.ID]tree.Tree, root tree.ID, edits *tree.Edits) (*treeDraft, error) {
	made, err := tree.Apply(func(id tree.ID) (tree.Tree, error) {
		if t, ok := old[id]; ok {
			return t, nil
		}
		return nil, tree.Missing(id)
	}, root, edits)
	if err != nil {
		return nil, err
	}
	d := &treeDraft{Draft: made, old: old}
	return d, d.sort(made.ObjectSet)
}

// sort indexes the objects of a set by name.
func (d *treeDraft) sort(p tree.ObjectSet) error {
	d.fresh, d.blobs = map[tree.ID]tree.Tree{}, map[tree.ID][]byte{}
	for _, o := range p.Objects {
		if o.Kind == tree.Blobs {
			d.blobs[o.ID] = o.Content
			continue
		}
		if _, known := d.old[o.ID]; known || o.ID == tree.Empty {
			continue
		}
		t, err := tree.Decode(o.Content)
		if err != nil {
			return err
		}
		d.fresh[o.ID] = t
	}
	return nil
}

// files returns the names of the files that were given.
func (d *treeDraft) files() []tree.ID { return slices.Collect(maps.Keys(d.blobs)) }

// sizeOf estimates the memory of a tree in bytes.
func sizeOf(t tree.Tree) int64 {
	n := int64(96)
	for _, e := range t {
		n += int64(48 + len(e.Name))
	}
	return n
}
