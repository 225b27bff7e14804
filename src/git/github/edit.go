package github

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// node is a point on the paths that are edited.
type node struct {
	edit *git.Edit        // at this very path
	file []byte           // within a directory's content: the file at this path
	kids map[string]*node // of a path above edits, or of a directory's content
}

func (n *node) grow(path string) *node {
	for name := range strings.SplitSeq(path, "/") {
		next := n.kids[name]
		if next == nil {
			next = &node{}
			if n.kids == nil {
				n.kids = map[string]*node{}
			}
			n.kids[name] = next
		}
		n = next
	}
	return n
}

// names returns the names of the kids in order, so that the same edits make the same calls.
func (n *node) names() []string { return slices.Sorted(maps.Keys(n.kids)) }

// grown makes nodes of edits. Edits with the same map share the nodes of its content.
func grown(edits []git.Edit) *node {
	top, contents := &node{}, map[uintptr]map[string]*node{}
	for i := range edits {
		e := &edits[i]
		at := top.grow(e.Path)
		at.edit = e
		if len(e.Dir) == 0 {
			continue
		}
		key := reflect.ValueOf(e.Dir).Pointer()
		if contents[key] == nil {
			contents[key] = contentOf(e.Dir)
		}
		at.kids = contents[key]
	}
	return top
}

func contentOf(dir map[string][]byte) map[string]*node {
	n := &node{}
	for rel, data := range dir {
		if data == nil {
			data = []byte{}
		}
		n.grow(rel).file = data
	}
	return n.kids
}

// draft is what edits make of a tree: new trees and files, by name. Equal content is
// hashed once, however many places share its slices and maps.
type draft struct {
	old   map[oid]tree   // that were read
	fresh map[oid]tree   // that were made, and are not among those that were read
	blobs map[oid][]byte // content that was given
	root  oid

	hashed map[slice]oid
	dirs   map[placed]oid
}

// slice tells slices apart without looking at what they hold.
type slice struct {
	first *byte
	len   int
}

// placed is a directory's content and what was there before.
type placed struct {
	content uintptr
	before  oid
}

// newDraft applies edits, which keep git.CheckEdits, to a tree, all of whose trees along
// the edited paths are in old.
func newDraft(old map[oid]tree, root oid, top *node) (*draft, error) {
	d := &draft{old: old, fresh: map[oid]tree{}, blobs: map[oid][]byte{}, hashed: map[slice]oid{}, dirs: map[placed]oid{}}
	after, err := d.edited(root, top, "")
	d.root = after
	return d, err
}

// edited returns the tree that the edits below n make of another.
func (d *draft) edited(before oid, n *node, path string) (oid, error) {
	old := d.old[before]
	after := make(map[string]entry, len(n.kids))
	for _, name := range n.names() {
		e, err := d.place(old.find(name), n.kids[name], join(path, name))
		if err != nil {
			return before, err
		}
		e.name = name
		after[name] = e
	}
	entries := make([]entry, 0, len(old)+len(after))
	for _, e := range old {
		if _, ok := after[e.name]; !ok {
			entries = append(entries, e)
		}
	}
	for _, e := range after {
		if e.mode != 0 {
			entries = append(entries, e)
		}
	}
	return d.add(entries), nil
}

// place returns what a path holds afterwards; the zero entry is nothing.
func (d *draft) place(old entry, n *node, path string) (entry, error) {
	if old.isForeign() {
		return entry{}, git.BadPath(path, "a symbolic link or a submodule is there")
	}
	switch {
	case n.edit == nil:
		if old.mode != 0 && !old.isTree() {
			return entry{}, git.BadPath(path, "a file is there, and a path below it is edited")
		}
		id, err := d.edited(treeOf(old), n, path)
		return dirEntry(id), err
	case n.edit.File != nil:
		return d.file(old, n.edit.File), nil
	case len(n.edit.Dir) > 0:
		return d.dir(old, n, path)
	}
	return entry{}, nil
}

// dir makes a path hold exactly the files below n.
func (d *draft) dir(old entry, n *node, path string) (entry, error) {
	key := placed{content: reflect.ValueOf(n.kids).Pointer(), before: treeOf(old)}
	if id, ok := d.dirs[key]; ok {
		return dirEntry(id), nil
	}
	id, err := d.exact(treeOf(old), n, path)
	if err == nil {
		d.dirs[key] = id
	}
	return dirEntry(id), err
}

// exact makes a tree of just the kids of n; what was there before gives the modes.
func (d *draft) exact(before oid, n *node, path string) (oid, error) {
	old := d.old[before]
	entries := make([]entry, 0, len(n.kids))
	for _, name := range n.names() {
		was, kid := old.find(name), n.kids[name]
		if was.isForeign() {
			return before, git.BadPath(join(path, name), "a symbolic link or a submodule is there")
		}
		e := entry{}
		if kid.kids == nil {
			e = d.file(was, kid.file)
		} else {
			id, err := d.exact(treeOf(was), kid, join(path, name))
			if err != nil {
				return before, err
			}
			e = dirEntry(id)
		}
		e.name = name
		entries = append(entries, e)
	}
	return d.add(entries), nil
}

// file makes a path a regular file; one that is there already keeps its mode.
func (d *draft) file(old entry, content []byte) entry {
	e := entry{mode: modeFile, id: d.blob(content)}
	if old.isFile() {
		e.mode = old.mode
	}
	return e
}

func (d *draft) blob(content []byte) oid {
	if len(content) == 0 {
		id := nameOf("blob", nil)
		d.blobs[id] = nil
		return id
	}
	key := slice{first: &content[0], len: len(content)}
	id, ok := d.hashed[key]
	if !ok {
		id = nameOf("blob", content)
		d.hashed[key], d.blobs[id] = id, content
	}
	return id
}

// add returns the name of a tree, and remembers it if it is new.
func (d *draft) add(entries []entry) oid {
	t := sorted(entries)
	id := t.oid()
	if _, ok := d.old[id]; !ok && id != emptyTree {
		d.fresh[id] = t
	}
	return id
}

// treeOf is the tree of an entry, the empty one if it is none.
func treeOf(e entry) oid {
	if e.isTree() {
		return e.id
	}
	return emptyTree
}

// dirEntry is a directory, or nothing if it would be empty.
func dirEntry(id oid) entry {
	if id == emptyTree {
		return entry{}
	}
	return entry{mode: modeTree, id: id}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}

// names returns the names of the files that were given.
func (d *draft) names() []oid { return slices.Collect(maps.Keys(d.blobs)) }
