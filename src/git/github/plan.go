package github

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

// treeItem is one entry of a request for a tree. Without content and id it removes the path.
type treeItem struct {
	path    string
	mode    uint32
	id      tree.ID
	content *string
}

func (i treeItem) size() int {
	n := perEntry + len(i.path)
	if i.content != nil {
		n += len(*i.content)
	}
	return n
}

// treePlan is how the server builds a draft's trees in few requests.
//
//	blobs    large or binary files: a request each
//	rounds   trees "0", "1", … of directories that occur in many places;
//	         those of a later round hold some of an earlier one
//	root     the changes from the old root to the new one
type treePlan struct {
	blobs  []tree.ID
	rounds [][]treeItem
	root   []treeItem

	d            *treeDraft
	k            *repoCache
	has          map[tree.ID]bool    // whether the server has an object
	counted      map[[2]tree.ID]bool // pairs of a new tree and what was there before
	uses         map[tree.ID]int     // places that hold a new object
	sizes        map[tree.ID]int     // bytes of a request that an object takes
	replacesFile map[tree.ID]bool    // trees at the path of a former file
	staged       map[tree.ID]bool    // sent once, on their own
	rounded      map[tree.ID]int     // round of each staged object
	order        []tree.ID           // new objects in the order they were found; then those of rounds
}

// newTreePlan plans the requests from one root to the draft's.
func newTreePlan(d *treeDraft, k *repoCache, from tree.ID) *treePlan {
	p := &treePlan{
		d: d, k: k, has: map[tree.ID]bool{}, counted: map[[2]tree.ID]bool{}, uses: map[tree.ID]int{}, sizes: map[tree.ID]int{},
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
	p.rounds = make([][]treeItem, p.lastRound()+1)
	p.fillRounds()
	p.root = p.diff(nil, d.Root, from, "")
	p.rounds = slices.DeleteFunc(p.rounds, func(r []treeItem) bool { return len(r) == 0 })
	return p
}

// onServer reports whether the server has an object, always the same for one plan.
func (p *treePlan) onServer(id tree.ID) bool {
	has, asked := p.has[id]
	if asked {
		return has
	}
	if _, fresh := p.d.fresh[id]; fresh {
		_, has = p.k.tree(id)
	} else {
		has = p.k.blob(id)
	}
	p.has[id] = has
	return has
}

// count collects the new objects below a tree, and counts the places that hold them.
func (p *treePlan) count(id, before tree.ID) {
	pair := [2]tree.ID{id, before}
	if p.counted[pair] {
		return
	}
	p.counted[pair] = true
	old := p.d.old[before]
	for _, e := range p.d.fresh[id] {
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
func (p *treePlan) sizeOf(id tree.ID) int {
	if w, ok := p.sizes[id]; ok {
		return w
	}
	w := 0
	if !p.onServer(id) {
		w = len(p.d.blobs[id])
		for _, e := range p.d.fresh[id] {
			w += perEntry + len(e.Name) + p.sizeOf(e.ID)
		}
	}
	p.sizes[id] = w
	return w
}

// stage selects the objects that are sent on their own: large and binary files, trees that replace
// a file, and objects that are shared by so many places that this saves something.
func (p *treePlan) stage() {
	var staged []tree.ID
	for _, id := range p.order {
		content, isBlob := p.d.blobs[id]
		switch {
		case isBlob && !inlinable(content):
			p.blobs = append(p.blobs, id)
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

// inlinable reports whether a file can be sent as text within a tree.
func inlinable(content []byte) bool {
	return len(content) <= maxInline && utf8.Valid(content) && !slices.Contains(content, 0)
}

// roundOf returns the round after those of all objects that an object holds.
func (p *treePlan) roundOf(id tree.ID) int {
	if h, ok := p.rounded[id]; ok {
		return h
	}
	h := 0
	for _, e := range p.d.fresh[id] {
		if p.onServer(e.ID) {
			continue
		}
		below := p.roundOf(e.ID)
		if p.staged[e.ID] && !slices.Contains(p.blobs, e.ID) {
			below++
		}
		h = max(h, below)
	}
	p.rounded[id] = h
	return h
}

func (p *treePlan) lastRound() int {
	top := 0
	for _, id := range p.order {
		top = max(top, p.rounded[id])
	}
	return top
}

// fillRounds writes the staged objects, each as a numbered directory or file.
func (p *treePlan) fillRounds() {
	slices.SortStableFunc(p.order, func(a, b tree.ID) int { return cmp.Compare(p.rounded[a], p.rounded[b]) })
	for n, id := range p.order {
		round := &p.rounds[p.rounded[id]]
		if content, isBlob := p.d.blobs[id]; isBlob {
			text := string(content)
			*round = append(*round, treeItem{path: strconv.Itoa(n), mode: tree.ModeFile, content: &text})
			continue
		}
		*round = p.diff(*round, id, tree.Empty, strconv.Itoa(n))
	}
}

// diff appends the items that turn one tree, at path, into another.
func (p *treePlan) diff(items []treeItem, id, before tree.ID, path string) []treeItem {
	next, old := p.tree(id), p.d.old[before]
	for _, was := range old {
		if next.Find(was.Name).Mode == 0 {
			items = append(items, treeItem{path: tree.Join(path, was.Name), mode: was.Mode})
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
func (p *treePlan) tree(id tree.ID) tree.Tree {
	if t, ok := p.d.fresh[id]; ok {
		return t
	}
	return p.d.old[id]
}

// itemOf names an object that the server has by then, or holds a file's content.
func (p *treePlan) itemOf(e tree.Entry, path string) treeItem {
	i := treeItem{path: path, mode: e.Mode, id: e.ID}
	if e.IsFile() && !p.staged[e.ID] && !p.onServer(e.ID) {
		text := string(p.d.blobs[e.ID])
		i.content = &text
	}
	return i
}

// splitItems splits items into requests within the limits; a single item may exceed them.
func splitItems(items []treeItem, maxItems, maxBytes int) [][]treeItem {
	var parts [][]treeItem
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

// collectNew collects the new objects of a tree, or a file.
func (p *treePlan) collectNew(id tree.ID, trees map[tree.ID]tree.Tree, blobs *[]tree.ID) {
	t, isTree := p.d.fresh[id]
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
