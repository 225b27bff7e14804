package plain

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git"
)

// change is what a set of edits makes of a snapshot: a new root tree and the
// objects that the server may lack. Only trees along edited paths are read.
//
// Callers that give many clusters the same content share slices and maps, so both
// are remembered by identity: a thousand equal directories are hashed once, and
// what is left is a look into a map for each.
type change struct {
	store *treeStore
	root  plumbing.Hash
	objs  []object
	have  map[plumbing.Hash]bool // of objs
	bytes int64

	blobs map[sliceID]object
	dirs  map[dirID]plumbing.Hash
	tries map[uintptr]*branch
}

// sliceID tells slices apart without looking at what they hold.
type sliceID struct {
	first *byte
	len   int
}

// dirID is a directory's content and what was there before.
type dirID struct {
	content uintptr
	before  plumbing.Hash
}

// branch is a node of the paths that are edited.
type branch struct {
	edit *git.Edit // at this very path; no kids then
	file []byte    // within a directory's content: the file at this path
	kids map[string]*branch
}

func (b *branch) grow(path string) *branch {
	for name := range strings.SplitSeq(path, "/") {
		next := b.kids[name]
		if next == nil {
			next = &branch{}
			if b.kids == nil {
				b.kids = map[string]*branch{}
			}
			b.kids[name] = next
		}
		b = next
	}
	return b
}

// names returns the names of the kids in order, so that the same edits make the
// same pack.
func (b *branch) names() []string { return slices.Sorted(maps.Keys(b.kids)) }

// newChange applies edits, which keep git.CheckEdits, to a snapshot.
func newChange(base snapshot, edits []git.Edit) (*change, error) {
	c := &change{
		store: base.store, have: map[plumbing.Hash]bool{},
		blobs: map[sliceID]object{}, dirs: map[dirID]plumbing.Hash{}, tries: map[uintptr]*branch{},
	}
	top := &branch{}
	for i := range edits {
		top.grow(edits[i].Path).edit = &edits[i]
	}
	root := base.root
	if root.IsZero() {
		root = emptyTree
	}
	id, err := c.edit(root, top, "", 0)
	if err != nil {
		return nil, err
	}
	if c.root = id; id.IsZero() {
		c.root = c.add(newObject(plumbing.TreeObject, nil))
	}
	return c, nil
}

// edit applies what is below b to a tree and returns the new one, zero if it is empty.
func (c *change) edit(before plumbing.Hash, b *branch, path string, depth int) (plumbing.Hash, error) {
	entries, err := c.read(before, depth)
	if err != nil {
		return before, err
	}
	old := pick(entries, b.kids)
	after := make(map[string]entry, len(b.kids))
	changed := false
	for _, name := range b.names() {
		e, err := c.place(old[name], b.kids[name], join(path, name), depth)
		if err != nil {
			return before, err
		}
		e.name = name
		after[name] = e
		changed = changed || e.id != old[name].id || e.mode != old[name].mode
	}
	if !changed {
		return before, nil
	}
	return c.write(replace(entries, after)), nil
}

// place returns what a path holds afterwards; the zero entry is nothing.
func (c *change) place(old entry, b *branch, path string, depth int) (entry, error) {
	if old.isForeign() {
		return entry{}, git.BadPath(path, "a symbolic link or a submodule is there")
	}
	switch {
	case b.edit == nil:
		if old.mode != 0 && !old.isTree() {
			return entry{}, git.BadPath(path, "a file is there, and a path below it is edited")
		}
		id, err := c.edit(old.id, b, path, depth+1)
		return treeEntry(id), err
	case b.edit.File != nil:
		return c.file(old, b.edit.File), nil
	case len(b.edit.Dir) > 0:
		return c.dir(old, b.edit.Dir, path, depth)
	}
	return entry{}, nil
}

// dir makes a path hold exactly the given files.
func (c *change) dir(old entry, content map[string][]byte, path string, depth int) (entry, error) {
	before := plumbing.ZeroHash
	if old.isTree() {
		before = old.id
	}
	key := dirID{content: reflect.ValueOf(content).Pointer(), before: before}
	if id, ok := c.dirs[key]; ok {
		return treeEntry(id), nil
	}
	files := c.tries[key.content]
	if files == nil {
		files = &branch{}
		for rel, data := range content {
			if data == nil {
				data = []byte{}
			}
			files.grow(rel).file = data
		}
		c.tries[key.content] = files
	}
	id, err := c.exact(before, files, path, depth+1)
	if err != nil {
		return entry{}, err
	}
	c.dirs[key] = id
	return treeEntry(id), nil
}

// exact builds a tree of just the kids of b; what was there before gives the modes.
func (c *change) exact(before plumbing.Hash, b *branch, path string, depth int) (plumbing.Hash, error) {
	entries, err := c.read(before, depth)
	if err != nil {
		return before, err
	}
	old := pick(entries, b.kids)
	after := make([]entry, 0, len(b.kids))
	for _, name := range b.names() {
		was, kid, here := old[name], b.kids[name], join(path, name)
		if was.isForeign() {
			return before, git.BadPath(here, "a symbolic link or a submodule is there")
		}
		e := c.fileOrNothing(was, kid)
		if kid.kids != nil {
			below := plumbing.ZeroHash
			if was.isTree() {
				below = was.id
			}
			id, err := c.exact(below, kid, here, depth+1)
			if err != nil {
				return before, err
			}
			e = treeEntry(id)
		}
		e.name = name
		after = append(after, e)
	}
	if id := newObject(plumbing.TreeObject, encodeTree(after)); id.id != before {
		return c.add(id), nil
	}
	return before, nil
}

func (c *change) fileOrNothing(was entry, b *branch) entry {
	if b.kids != nil {
		return entry{}
	}
	return c.file(was, b.file)
}

// file makes a path a regular file; one that is there already keeps its mode.
func (c *change) file(old entry, content []byte) entry {
	e := entry{mode: modeFile}
	if old.isFile() {
		e.mode = old.mode
	}
	o := c.blob(content)
	if e.id = o.id; e.id != old.id {
		c.add(o)
	}
	return e
}

func (c *change) blob(content []byte) object {
	if len(content) == 0 {
		return newObject(plumbing.BlobObject, nil)
	}
	key := sliceID{first: &content[0], len: len(content)}
	o, ok := c.blobs[key]
	if !ok {
		o = newObject(plumbing.BlobObject, content)
		c.blobs[key] = o
	}
	return o
}

// read returns the entries of a tree; zero is the empty one.
func (c *change) read(id plumbing.Hash, depth int) ([]entry, error) {
	if depth > maxDepth {
		return nil, malformed("trees nested too deep")
	}
	if id.IsZero() {
		return nil, nil
	}
	return c.store.entries(id)
}

// write adds a tree unless it is empty.
func (c *change) write(entries []entry) plumbing.Hash {
	if len(entries) == 0 {
		return plumbing.ZeroHash
	}
	return c.add(newObject(plumbing.TreeObject, encodeTree(entries)))
}

func (c *change) add(o object) plumbing.Hash {
	if !c.have[o.id] {
		c.have[o.id] = true
		c.objs = append(c.objs, o)
		c.bytes += int64(len(o.content))
	}
	return o.id
}

// seal adds the commit.
func (c *change) seal(parent plumbing.Hash, m git.Message) (plumbing.Hash, error) {
	var parents []git.Hash
	if !parent.IsZero() {
		parents = []git.Hash{git.Hash(parent.String())}
	}
	text, _, err := m.Object(git.Hash(c.root.String()), parents...)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return c.add(newObject(plumbing.CommitObject, text)), nil
}

// trees returns the new trees.
func (c *change) trees() []object {
	return slices.DeleteFunc(slices.Clone(c.objs), func(o object) bool { return o.kind != plumbing.TreeObject })
}

// pick returns the entries that are edited, by name.
func pick(entries []entry, kids map[string]*branch) map[string]entry {
	old := make(map[string]entry, len(kids))
	for _, e := range entries {
		if _, ok := kids[e.name]; ok {
			old[e.name] = e
		}
	}
	return old
}

// replace returns entries with those of after in the place of their namesakes.
func replace(entries []entry, after map[string]entry) []entry {
	result := make([]entry, 0, len(entries)+len(after))
	for _, e := range entries {
		if _, ok := after[e.name]; !ok {
			result = append(result, e)
		}
	}
	for _, e := range after {
		if !e.id.IsZero() {
			result = append(result, e)
		}
	}
	return result
}

// treeEntry is a directory, or nothing if it would be empty.
func treeEntry(id plumbing.Hash) entry {
	if id.IsZero() || id == emptyTree {
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
