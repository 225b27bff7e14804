package tree

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// Edits is a node of the paths that a set of edits names; the first one is the root. Directories
// with the same content, by identity, share their nodes.
type Edits struct {
	edit     *git.Edit // at this very path
	file     []byte    // within a directory's content: the file at this path
	children map[string]*Edits
	// the content of a directory edit; many edits share one map
	content *Edits
}

// NewEdits builds the nodes of edits that keep git.CheckEdits.
func NewEdits(edits []git.Edit) *Edits {
	top, contents := &Edits{}, map[uintptr]*Edits{}
	for i := range edits {
		e := &edits[i]
		at := top.at(e.Path)
		at.edit = e
		if len(e.Dir) == 0 {
			continue
		}
		key := reflect.ValueOf(e.Dir).Pointer()
		if contents[key] == nil {
			contents[key] = contentOf(e.Dir)
		}
		at.content = contents[key]
	}
	return top
}

func contentOf(dir map[string][]byte) *Edits {
	n := &Edits{}
	for rel, data := range dir {
		if data == nil {
			data = []byte{}
		}
		n.at(rel).file = data
	}
	return n
}

func (n *Edits) at(path string) *Edits {
	for name := range strings.SplitSeq(path, "/") {
		next := n.children[name]
		if next == nil {
			next = &Edits{}
			if n.children == nil {
				n.children = map[string]*Edits{}
			}
			n.children[name] = next
		}
		n = next
	}
	return n
}

// names returns the names of the children in order, so that the same edits make the same pack.
func (n *Edits) names() []string { return slices.Sorted(maps.Keys(n.children)) }

// Subtrees yields the directories of the tree at this node that must be read to apply the edits,
// with the edits below each.
func (n *Edits) Subtrees(t Tree) iter.Seq2[Entry, *Edits] {
	return func(yield func(Entry, *Edits) bool) {
		below := n
		if n.content != nil {
			below = n.content
		}
		for _, name := range below.names() {
			kid := below.children[name]
			if e := t.Find(name); e.IsTree() && (kid.children != nil || kid.content != nil) && !yield(e, kid) {
				return
			}
		}
	}
}
