package batch

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// editSet is the edits of several jobs as one set.
type editSet struct {
	edits      map[string]git.Edit // by path; the last one wins
	editsBelow map[string]int      // how many edits are below a directory
	paths      int                 // files and deletions
	bytes      int64               // distinct, as far as slices tell
	seen       map[sliceID]bool
	dirs       map[uintptr]bool // those of which all was seen, by what edits share them by
}

// sliceID tells slices apart without looking at what they hold.
type sliceID struct {
	first *byte
	len   int
}

func newEditSet() *editSet {
	return &editSet{edits: map[string]git.Edit{}, editsBelow: map[string]int{}, seen: map[sliceID]bool{}, dirs: map[uintptr]bool{}}
}

// fits says whether edits can join: none is inside another's path or around it, and
// the caps hold.
func (m *editSet) fits(edits []git.Edit, o Options) bool {
	paths, bytes := m.paths, m.bytes
	for _, e := range edits {
		if m.clashes(e.Path) {
			return false
		}
		paths += max(1, len(e.Dir))
		bytes += m.newBytes(e)
	}
	return paths <= o.MaxPaths && bytes <= o.MaxBytes
}

// clashes says whether a path is inside of an edited path or the other way round.
func (m *editSet) clashes(path string) bool {
	if m.editsBelow[path] > 0 {
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
func (m *editSet) add(edits []git.Edit) {
	for _, e := range edits {
		if _, ok := m.edits[e.Path]; !ok {
			for dir := range parents(e.Path) {
				m.editsBelow[dir]++
			}
		}
		m.edits[e.Path] = e
		m.paths += max(1, len(e.Dir))
		m.bytes += m.recordBytes(e)
	}
}

// newBytes is how many bytes of an edit were not seen before.
func (m *editSet) newBytes(e git.Edit) (n int64) {
	if m.dirs[dirIdentity(e)] {
		return 0
	}
	eachContent(e, func(data []byte) {
		if !m.seen[sliceIdentity(data)] {
			n += int64(len(data))
		}
	})
	return n
}

// recordBytes is news, and has seen them from then on.
func (m *editSet) recordBytes(e git.Edit) (n int64) {
	if m.dirs[dirIdentity(e)] {
		return 0
	}
	eachContent(e, func(data []byte) {
		if c := sliceIdentity(data); !m.seen[c] {
			m.seen[c] = true
			n += int64(len(data))
		}
	})
	m.dirs[dirIdentity(e)] = e.Dir != nil
	return n
}

// dirIdentity tells apart directories that edits do not share; 0 if there is none.
func dirIdentity(e git.Edit) uintptr { return reflect.ValueOf(e.Dir).Pointer() }

func eachContent(e git.Edit, visit func([]byte)) {
	if len(e.File) > 0 {
		visit(e.File)
	}
	for _, data := range e.Dir {
		if len(data) > 0 {
			visit(data)
		}
	}
}

func sliceIdentity(data []byte) sliceID { return sliceID{first: &data[0], len: len(data)} }

// inOrder returns the edits in path order.
func (m *editSet) inOrder() []git.Edit {
	edits := make([]git.Edit, 0, len(m.edits))
	for _, e := range m.edits {
		edits = append(edits, e)
	}
	slices.SortFunc(edits, func(a, b git.Edit) int { return strings.Compare(a.Path, b.Path) })
	return edits
}

// maxValues is how many values of one trailer are written out.
const maxValues = 32

// joinMessages says what the jobs say, together: the first title and how many more there
// are, and for each trailer the sorted values of all. A long list is cut, and ends
// in how many are missing.
func joinMessages(reqs []*jobRequest, author string) git.Message {
	m := git.Message{Author: author, Title: joinTitles(reqs)}
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
		m.Trailers = append(m.Trailers, git.Trailer{Key: k, Value: joinValues(values[k])})
	}
	fence := reqs[0].job.Fence
	if text := fence.String(); text != "" {
		m.Trailers = append(m.Trailers, git.Trailer{Key: FenceTrailer, Value: text})
	}
	return m
}

func joinTitles(reqs []*jobRequest) string {
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

func joinValues(values []string) string {
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) <= maxValues {
		return strings.Join(values, ", ")
	}
	return fmt.Sprintf("%s, … (%d more)", strings.Join(values[:maxValues], ", "), len(values)-maxValues)
}
