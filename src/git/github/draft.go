package github

import (
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/git/tree"
)

// treeDraft is what edits make of a tree, by the names of objects.
type treeDraft struct {
	*tree.Draft
	old   map[tree.ID]tree.Tree // that were read
	fresh map[tree.ID]tree.Tree // that were made, and are not among those that were read
	blobs map[tree.ID][]byte    // files that differ from what was in their places
}

// newTreeDraft applies edits to a tree, all of whose trees along the edited paths are in old.
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

// sort puts the objects of a pile where they are found by their names.
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

// sizeOf is about how many bytes of memory a tree takes.
func sizeOf(t tree.Tree) int64 {
	n := int64(96)
	for _, e := range t {
		n += int64(48 + len(e.Name))
	}
	return n
}
