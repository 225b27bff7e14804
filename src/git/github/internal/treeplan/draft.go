// Package treeplan plans how GitHub builds the trees of a commit in few requests. It makes no calls.
package treeplan

import (
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Draft is the outcome of edits, by the names of objects.
type Draft struct {
	*tree.Draft
	Fresh map[tree.ID]tree.Tree // new, and not in old
	Blobs map[tree.ID][]byte    // new files

	old map[tree.ID]tree.Tree // read from the server
}

// NewDraft applies edits to a tree. All trees along the edited paths are in old.
func NewDraft(old map[tree.ID]tree.Tree, root tree.ID, edits *tree.Edits) (*Draft, error) {
	made, err := tree.Apply(func(id tree.ID) (tree.Tree, error) {
		if t, ok := old[id]; ok {
			return t, nil
		}
		return nil, tree.Missing(id)
	}, root, edits)
	if err != nil {
		return nil, err
	}
	d := &Draft{Draft: made, old: old}
	return d, d.sort(made.ObjectSet)
}

// sort indexes the objects of a set by name.
func (d *Draft) sort(p tree.ObjectSet) error {
	d.Fresh, d.Blobs = map[tree.ID]tree.Tree{}, map[tree.ID][]byte{}
	for _, o := range p.Objects {
		if o.Kind == tree.Blobs {
			d.Blobs[o.ID] = o.Content
			continue
		}
		if _, known := d.old[o.ID]; known || o.ID == tree.Empty {
			continue
		}
		t, err := tree.Decode(o.Content)
		if err != nil {
			return err
		}
		d.Fresh[o.ID] = t
	}
	return nil
}
