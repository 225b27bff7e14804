package batch

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// merge is the edits of several jobs as one set.
type merge struct {
	edits map[string]git.Edit // by path; the last one wins
	above map[string]int      // how many edits are below a directory
	paths int                 // files and deletions
	bytes int64               // distinct, as far as slices tell
	seen  map[content]bool
	dirs  map[uintptr]bool // those of which all was seen, by what edits share them by
}

// content tells slices apart without looking at what they hold.
type content struct {
	first *byte
	len   int
}

func newMerge() *merge {
	return &merge{edits: map[string]git.Edit{}, above: map[string]int{}, seen: map[content]bool{}, dirs: map[uintptr]bool{}}
}

// fits says whether edits can join: none is inside another's path or around it, and
// the caps hold.
func (m *merge) fits(edits []git.Edit, o Options) bool {
	paths, bytes := m.paths, m.bytes
	for _, e := range edits {
		if m.clashes(e.Path) {
			return false
		}
		paths += max(1, len(e.Dir))
		bytes += m.news(e)
	}
	return paths <= o.MaxPaths && bytes <= o.MaxBytes
}

// clashes says whether a path is inside of an edited path or the other way round.
func (m *merge) clashes(path string) bool {
	if m.above[path] > 0 {
		return true
	}
	for dir := range parents(path) {
		if _, ok := m.edits[dir]; ok {
			return true
		}
	}
	return false
}

// parents yields the directories above a path.
func parents(path string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := range len(path) {
			if path[i] == '/' && !yield(path[:i]) {
				return
			}
		}
	}
}

// add takes edits in. What they replace still counts against the caps.
func (m *merge) add(edits []git.Edit) {
	for _, e := range edits {
		if _, ok := m.edits[e.Path]; !ok {
			for dir := range parents(e.Path) {
				m.above[dir]++
			}
		}
		m.edits[e.Path] = e
		m.paths += max(1, len(e.Dir))
		m.bytes += m.take(e)
	}
}

// news is how many bytes of an edit were not seen before.
func (m *merge) news(e git.Edit) (n int64) {
	if m.dirs[set(e)] {
		return 0
	}
	each(e, func(data []byte) {
		if !m.seen[identity(data)] {
			n += int64(len(data))
		}
	})
	return n
}

// take is news, and has seen them from then on.
func (m *merge) take(e git.Edit) (n int64) {
	if m.dirs[set(e)] {
		return 0
	}
	each(e, func(data []byte) {
		if c := identity(data); !m.seen[c] {
			m.seen[c] = true
			n += int64(len(data))
		}
	})
	m.dirs[set(e)] = e.Dir != nil
	return n
}

// set tells apart directories that edits do not share; 0 if there is none.
func set(e git.Edit) uintptr { return reflect.ValueOf(e.Dir).Pointer() }

func each(e git.Edit, visit func([]byte)) {
	if len(e.File) > 0 {
		visit(e.File)
	}
	for _, data := range e.Dir {
		if len(data) > 0 {
			visit(data)
		}
	}
}

func identity(data []byte) content { return content{first: &data[0], len: len(data)} }

// sorted returns the edits in path order.
func (m *merge) sorted() []git.Edit {
	edits := make([]git.Edit, 0, len(m.edits))
	for _, e := range m.edits {
		edits = append(edits, e)
	}
	slices.SortFunc(edits, func(a, b git.Edit) int { return strings.Compare(a.Path, b.Path) })
	return edits
}

// maxValues is how many values of one trailer are written out.
const maxValues = 32

// message says what the jobs say, together: the first title and how many more there
// are, and for each trailer the sorted values of all. A long list is cut, and ends
// in how many are missing.
func message(reqs []*request, author string) git.Message {
	m := git.Message{Author: author, Title: title(reqs)}
	values := map[string][]string{}
	var keys []string
	for _, r := range reqs {
		for _, t := range r.job.Trailers {
			if _, ok := values[t.Key]; !ok {
				keys = append(keys, t.Key)
			}
			for v := range strings.SplitSeq(t.Value, ",") {
				values[t.Key] = append(values[t.Key], strings.TrimSpace(v))
			}
		}
	}
	for _, k := range keys {
		m.Trailers = append(m.Trailers, git.Trailer{Key: k, Value: list(values[k])})
	}
	fence := reqs[0].job.Fence
	if text := fence.String(); text != "" {
		m.Trailers = append(m.Trailers, git.Trailer{Key: FenceTrailer, Value: text})
	}
	return m
}

func title(reqs []*request) string {
	others := 0
	for _, r := range reqs[1:] {
		if r.job.Title != reqs[0].job.Title {
			others++
		}
	}
	if others == 0 {
		return reqs[0].job.Title
	}
	return fmt.Sprintf("%s (and %d more)", reqs[0].job.Title, others)
}

func list(values []string) string {
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) <= maxValues {
		return strings.Join(values, ", ")
	}
	return fmt.Sprintf("%s, … (%d more)", strings.Join(values[:maxValues], ", "), len(values)-maxValues)
}
