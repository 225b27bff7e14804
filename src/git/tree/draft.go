package tree

import (
	"errors"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Reader returns an existing tree.
type Reader func(ID) (Tree, error)

// Object is a tree or a file.
type Object struct {
	Kind    Kind
	ID      ID
	Content []byte
	Path    string // of a file: one of its paths. Files whose paths end alike are likely alike
}

// ObjectSet is objects that the server may lack, each once, trees after what they hold.
type ObjectSet struct {
	Objects []Object
	Bytes   int64 // of their content

	at    map[ID]int // of Objects
	below *ObjectSet // objects that are not added again; nil: none
}

func (p *ObjectSet) add(o Object) {
	if _, have := p.Get(o.ID); have {
		return
	}
	if p.at == nil {
		p.at = map[ID]int{}
	}
	p.at[o.ID] = len(p.Objects)
	p.Objects = append(p.Objects, o)
	p.Bytes += int64(len(o.Content))
}

// Get returns an object of the set, or of the one below.
func (p *ObjectSet) Get(id ID) (Object, bool) {
	if i, ok := p.at[id]; ok {
		return p.Objects[i], true
	}
	if p.below == nil {
		return Object{}, false
	}
	return p.below.Get(id)
}

// tree adds a tree unless it is empty.
func (p *ObjectSet) tree(t Tree) ID {
	if len(t) == 0 {
		return Empty
	}
	raw := t.Encode()
	o := Object{Kind: Trees, ID: ObjectID(Trees, raw), Content: raw}
	p.add(o)
	return o.ID
}

// Draft is the outcome of edits on a tree.
//
// Callers that give many clusters the same content share slices and maps, so both are remembered by
// identity: a thousand equal directories are hashed once, and the others cost a look into a map.
type Draft struct {
	ObjectSet
	Root ID // Empty if nothing is left

	read  Reader
	blobs map[sliceID]Object
	dirs  map[dirID]ID
}

// sliceID identifies a slice without reading its content.
type sliceID struct {
	first *byte
	len   int
}

// dirID is a directory's content and the tree that it replaces.
type dirID struct {
	content *Edits
	before  ID
}

// Apply returns the outcome of edits on the tree root. It returns Invalid with the path that causes
// it for edits that are impossible there, and the errors of read, which is not called for Empty.
func Apply(read Reader, root ID, edits *Edits) (*Draft, error) {
	d := &Draft{read: read, blobs: map[sliceID]Object{}, dirs: map[dirID]ID{}}
	var err error
	if d.Root, err = d.edit(root, edits, "", 0); err != nil {
		return nil, err
	}
	if d.Root == Empty && root != Empty {
		d.add(Object{Kind: Trees, ID: Empty}) // no tree holds it, but the commit does
	}
	return d, nil
}

// Tree returns a tree of the draft, or an older one.
func (d *Draft) Tree(id ID) (Tree, error) {
	if o, ok := d.Get(id); ok && o.Kind == Trees {
		return Decode(o.Content)
	}
	if id == Empty {
		return nil, nil
	}
	return d.read(id)
}

// edit applies the edits below n to a tree and returns the new one.
func (d *Draft) edit(before ID, n *Edits, path string, depth int) (ID, error) {
	entries, err := d.entries(before, depth)
	if err != nil {
		return before, err
	}
	old := editedEntries(entries, n)
	after := make(map[string]Entry, len(n.children))
	changed := false
	for _, name := range n.names() {
		e, err := d.apply(old[name], n.children[name], Join(path, name), depth)
		if err != nil {
			return before, err
		}
		e.Name = name
		after[name] = e
		changed = changed || !e.Is(old[name])
	}
	if !changed {
		return before, nil
	}
	return d.tree(mergeEntries(entries, after)), nil
}

// apply returns the new entry of a path; the zero entry is nothing.
func (d *Draft) apply(old Entry, n *Edits, path string, depth int) (Entry, error) {
	if old.leadsOut() {
		return Entry{}, git.BadPath(path, "a symbolic link or a submodule is there")
	}
	switch {
	case n.edit == nil:
		if old.Mode != 0 && !old.IsTree() {
			return Entry{}, git.BadPath(path, "a file is there, and a path below it is edited")
		}
		id, err := d.edit(old.Below(), n, path, depth+1)
		return dir(id), err
	case n.edit.File != nil:
		return d.file(old, n.edit.File, path), nil
	case n.content != nil:
		return d.dir(old, n.content, path, depth)
	}
	return Entry{}, nil
}

// dir makes a path hold exactly the given files.
func (d *Draft) dir(old Entry, content *Edits, path string, depth int) (Entry, error) {
	key := dirID{content: content, before: old.Below()}
	if id, ok := d.dirs[key]; ok {
		return dir(id), nil
	}
	id, err := d.replaceDir(old.Below(), content, path, depth+1)
	if err != nil {
		return Entry{}, err
	}
	d.dirs[key] = id
	return dir(id), nil
}

// replaceDir builds a tree of exactly the children of n; the old tree gives the modes.
func (d *Draft) replaceDir(before ID, n *Edits, path string, depth int) (ID, error) {
	entries, err := d.entries(before, depth)
	if err != nil {
		return before, err
	}
	old := editedEntries(entries, n)
	after := make([]Entry, 0, len(n.children))
	for _, name := range n.names() {
		e, err := d.entryInDir(old[name], n.children[name], Join(path, name), depth)
		if err != nil {
			return before, err
		}
		e.Name = name
		after = append(after, e)
	}
	raw := Sort(after).Encode()
	o := Object{Kind: Trees, ID: ObjectID(Trees, raw), Content: raw}
	if o.ID != before {
		d.add(o)
	}
	return o.ID, nil
}

// entryInDir returns the new entry of a path within a directory.
func (d *Draft) entryInDir(was Entry, n *Edits, path string, depth int) (Entry, error) {
	if was.leadsOut() {
		return Entry{}, git.BadPath(path, "a symbolic link or a submodule is there")
	}
	if n.children == nil {
		return d.file(was, n.file, path), nil
	}
	id, err := d.replaceDir(was.Below(), n, path, depth+1)
	return dir(id), err
}

// file makes a path a regular file; one that is there already keeps its mode.
func (d *Draft) file(old Entry, content []byte, path string) Entry {
	e := Entry{Mode: ModeFile}
	if old.IsFile() {
		e.Mode = old.Mode
	}
	o := d.blob(content)
	if e.ID = o.ID; e.ID != old.ID {
		o.Path = path
		d.add(o)
	}
	return e
}

func (d *Draft) blob(content []byte) Object {
	key := sliceID{len: len(content)}
	if len(content) > 0 {
		key.first = &content[0]
	}
	o, ok := d.blobs[key]
	if !ok {
		o = Object{Kind: Blobs, ID: ObjectID(Blobs, content), Content: content}
		d.blobs[key] = o
	}
	return o
}

// entries returns what a tree holds.
func (d *Draft) entries(id ID, depth int) (Tree, error) {
	if depth > MaxDepth {
		return nil, errs.E(errs.Unavailable, "read", "", errors.New("directories are nested too deep"))
	}
	if id == Empty {
		return nil, nil
	}
	return d.read(id)
}

// editedEntries returns the entries that are edited, by name.
func editedEntries(entries Tree, n *Edits) map[string]Entry {
	old := make(map[string]Entry, len(n.children))
	for _, e := range entries {
		if _, ok := n.children[e.Name]; ok {
			old[e.Name] = e
		}
	}
	return old
}

// mergeEntries replaces entries by those of after with the same names.
func mergeEntries(entries Tree, after map[string]Entry) Tree {
	result := make([]Entry, 0, len(entries)+len(after))
	for _, e := range entries {
		if _, ok := after[e.Name]; !ok {
			result = append(result, e)
		}
	}
	for _, e := range after {
		if e.Mode != 0 {
			result = append(result, e)
		}
	}
	return Sort(result)
}
