package treeplan

import (
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/git/tree"
)

const (
	worthSharing = 16 << 10  // bytes that sending an object once must save
	maxInline    = 256 << 10 // bytes of a file that is sent within a tree
	perEntry     = 120       // bytes of an entry besides its path and content
)

// Item is one entry of a request for a tree. Without content and id it removes the path.
type Item struct {
	Path    string
	Mode    uint32
	ID      tree.ID
	Content *string
}

func (i Item) size() int {
	n := perEntry + len(i.Path)
	if i.Content != nil {
		n += len(*i.Content)
	}
	return n
}

// Known are the objects that the server is known to have.
type Known interface {
	Tree(id tree.ID) (tree.Tree, bool)
	Blob(id tree.ID) bool
}

// Plan is how the server builds a draft's trees in few requests.
//
//	Blobs    large or binary files: a request each
//	Rounds   trees "0", "1", … of directories that occur in many places;
//	         those of a later round hold some of an earlier one
//	Root     the changes from the old root to the new one
type Plan struct {
	Blobs  []tree.ID
	Rounds [][]Item
	Root   []Item

	draft        *Draft
	known        Known
	has          map[tree.ID]bool    // whether the server has an object
	counted      map[[2]tree.ID]bool // pairs of a new tree and what was there before
	uses         map[tree.ID]int     // places that hold a new object
	sizes        map[tree.ID]int     // bytes of a request that an object takes
	replacesFile map[tree.ID]bool    // trees at the path of a former file
	staged       map[tree.ID]bool    // sent once, on their own
	rounded      map[tree.ID]int     // round of each staged object
	order        []tree.ID           // new objects in the order they were found; then those of rounds
}

// New plans the requests from one root to the draft's.
func New(d *Draft, known Known, from tree.ID) *Plan {
	p := &Plan{
		draft: d, known: known, has: map[tree.ID]bool{}, counted: map[[2]tree.ID]bool{}, uses: map[tree.ID]int{}, sizes: map[tree.ID]int{},
		replacesFile: map[tree.ID]bool{}, staged: map[tree.ID]bool{}, rounded: map[tree.ID]int{},
	}
	for id, t := range d.old {
		p.has[id] = id != tree.Empty // which no server needs to hold until a commit does
		for _, e := range t {
			p.has[e.ID] = true
		}
	}
	if p.onServer(d.Root) {
		return p
	}
	p.count(d.Root, from)
	p.stage()
	p.Rounds = make([][]Item, p.lastRound()+1)
	p.fillRounds()
	p.Root = p.diff(nil, d.Root, from, "")
	p.Rounds = slices.DeleteFunc(p.Rounds, func(r []Item) bool { return len(r) == 0 })
	return p
}

// onServer reports whether the server has an object, always the same for one plan.
func (p *Plan) onServer(id tree.ID) bool {
	has, asked := p.has[id]
	if asked {
		return has
	}
	if _, fresh := p.draft.Fresh[id]; fresh {
		_, has = p.known.Tree(id)
	} else {
		has = p.known.Blob(id)
	}
	p.has[id] = has
	return has
}

// count collects the new objects below a tree, and counts the places that hold them.
func (p *Plan) count(id, before tree.ID) {
	pair := [2]tree.ID{id, before}
	if p.counted[pair] {
		return
	}
	p.counted[pair] = true
	old := p.draft.old[before]
	for _, e := range p.draft.Fresh[id] {
		was := old.Find(e.Name)
		if e.Is(was) || p.onServer(e.ID) {
			continue
		}
		if p.uses[e.ID]++; p.uses[e.ID] == 1 {
			p.order = append(p.order, e.ID)
		}
		if e.IsTree() {
			p.replacesFile[e.ID] = p.replacesFile[e.ID] || was.Mode != 0 && !was.IsTree()
			p.count(e.ID, was.Below())
		}
	}
}

// sizeOf returns how many bytes of a request an object takes in place.
func (p *Plan) sizeOf(id tree.ID) int {
	if w, ok := p.sizes[id]; ok {
		return w
	}
	w := 0
	if !p.onServer(id) {
		w = len(p.draft.Blobs[id])
		for _, e := range p.draft.Fresh[id] {
			w += perEntry + len(e.Name) + p.sizeOf(e.ID)
		}
	}
	p.sizes[id] = w
	return w
}

// stage selects the objects that are sent on their own: large and binary files, trees that replace
// a file, and objects that are shared by so many places that this saves something.
func (p *Plan) stage() {
	var staged []tree.ID
	for _, id := range p.order {
		content, isBlob := p.draft.Blobs[id]
		switch {
		case isBlob && !Inlinable(content):
			p.Blobs = append(p.Blobs, id)
			p.staged[id] = true
		case p.replacesFile[id] || (p.uses[id]-1)*p.sizeOf(id) >= worthSharing:
			staged = append(staged, id)
			p.staged[id] = true
		}
	}
	p.order = staged
	for _, id := range staged {
		p.rounded[id] = p.roundOf(id)
	}
}

// Inlinable reports whether a file can be sent as text within a tree.
func Inlinable(content []byte) bool {
	return len(content) <= maxInline && utf8.Valid(content) && !slices.Contains(content, 0)
}

// roundOf returns the round after those of all objects that an object holds.
func (p *Plan) roundOf(id tree.ID) int {
	if h, ok := p.rounded[id]; ok {
		return h
	}
	h := 0
	for _, e := range p.draft.Fresh[id] {
		if p.onServer(e.ID) {
			continue
		}
		below := p.roundOf(e.ID)
		if p.staged[e.ID] && !slices.Contains(p.Blobs, e.ID) {
			below++
		}
		h = max(h, below)
	}
	p.rounded[id] = h
	return h
}

func (p *Plan) lastRound() int {
	top := 0
	for _, id := range p.order {
		top = max(top, p.rounded[id])
	}
	return top
}

// fillRounds writes the staged objects, each as a numbered directory or file.
func (p *Plan) fillRounds() {
	slices.SortStableFunc(p.order, func(a, b tree.ID) int { return cmp.Compare(p.rounded[a], p.rounded[b]) })
	for n, id := range p.order {
		round := &p.Rounds[p.rounded[id]]
		if content, isBlob := p.draft.Blobs[id]; isBlob {
			text := string(content)
			*round = append(*round, Item{Path: strconv.Itoa(n), Mode: tree.ModeFile, Content: &text})
			continue
		}
		*round = p.diff(*round, id, tree.Empty, strconv.Itoa(n))
	}
}

// diff appends the items that turn one tree, at path, into another.
func (p *Plan) diff(items []Item, id, before tree.ID, path string) []Item {
	next, old := p.tree(id), p.draft.old[before]
	for _, was := range old {
		if next.Find(was.Name).Mode == 0 {
			items = append(items, Item{Path: tree.Join(path, was.Name), Mode: was.Mode})
		}
	}
	for _, e := range next {
		was, at := old.Find(e.Name), tree.Join(path, e.Name)
		switch {
		case e.Is(was):
		case e.IsTree() && !p.staged[e.ID] && !p.onServer(e.ID):
			items = p.diff(items, e.ID, was.Below(), at)
		default:
			items = append(items, p.itemOf(e, at))
		}
	}
	return items
}

// tree returns a tree of the draft.
func (p *Plan) tree(id tree.ID) tree.Tree {
	if t, ok := p.draft.Fresh[id]; ok {
		return t
	}
	return p.draft.old[id]
}

// itemOf names an object that the server has by then, or holds a file's content.
func (p *Plan) itemOf(e tree.Entry, path string) Item {
	i := Item{Path: path, Mode: e.Mode, ID: e.ID}
	if e.IsFile() && !p.staged[e.ID] && !p.onServer(e.ID) {
		text := string(p.draft.Blobs[e.ID])
		i.Content = &text
	}
	return i
}

// Split splits items into requests within the limits; a single item may exceed them.
func Split(items []Item, maxItems, maxBytes int) [][]Item {
	var parts [][]Item
	start, bytes := 0, 0
	for i, it := range items {
		if i > start && (i-start >= maxItems || bytes+it.size() > maxBytes) {
			parts = append(parts, items[start:i])
			start, bytes = i, 0
		}
		bytes += it.size()
	}
	if start < len(items) {
		parts = append(parts, items[start:])
	}
	return parts
}

// MadeBy returns the new objects that the server has after a round: trees, and names of files.
func (p *Plan) MadeBy(round int) (map[tree.ID]tree.Tree, []tree.ID) {
	trees, blobs := map[tree.ID]tree.Tree{}, []tree.ID{}
	for _, id := range p.order {
		if p.rounded[id] == round {
			p.collectNew(id, trees, &blobs)
		}
	}
	return trees, blobs
}

// collectNew collects the new objects of a tree, or a file.
func (p *Plan) collectNew(id tree.ID, trees map[tree.ID]tree.Tree, blobs *[]tree.ID) {
	t, isTree := p.draft.Fresh[id]
	if !isTree {
		*blobs = append(*blobs, id)
		return
	}
	if _, done := trees[id]; done {
		return
	}
	trees[id] = t
	for _, e := range t {
		if !p.has[e.ID] {
			p.collectNew(e.ID, trees, blobs)
		}
	}
}
