package batch

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// editSet is the union of the edits of several jobs.
type editSet struct {
	edits      map[string]git.Edit // by path; the last one wins
	editsBelow map[string]int      // how many edits are below a directory
	paths      int                 // files and deletions
	bytes      int64               // of distinct slices
	seen       map[sliceID]bool
	dirs       map[uintptr]bool // whose bytes all count already, by identity
}

// sliceID identifies a slice without reading its content.
type sliceID struct {
	first *byte
	len   int
}

func newEditSet() *editSet {
	return &editSet{edits: map[string]git.Edit{}, editsBelow: map[string]int{}, seen: map[sliceID]bool{}, dirs: map[uintptr]bool{}}
}

// fits reports whether edits can join: none is inside or around a path of the set, and the limits
// hold.
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

// clashes reports whether a path is inside or around an edited path.
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

// add adds edits. Replaced ones still count against the limits.
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

// newBytes returns how many bytes of an edit are not in the set yet.
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

// recordBytes is newBytes, and adds these bytes.
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

// dirIdentity identifies the map of a directory, which edits may share; 0 without one.
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

// maxValues is how many values of one trailer are written.
const maxValues = 32

// joinMessages merges the messages of jobs: the first title and the number of others, and for each
// trailer the sorted values of all.
func joinMessages(reqs []*jobRequest, author string) git.Message {
	m := git.Message{Author: author, Title: joinTitles(reqs)}
	m.Trailers = joinTrailers(reqs, func(j Job) []git.Trailer { return j.Trailers }, counted)
	m.Trailers = append(m.Trailers, joinTrailers(reqs, func(j Job) []git.Trailer { return j.Exact }, exact)...)
	fence := reqs[0].job.Fence
	if text := fence.String(); text != "" {
		m.Trailers = append(m.Trailers, git.Trailer{Key: FenceTrailer, Value: text})
	}
	return m
}

// joinTrailers merges trailers of jobs in the order of their first use. join makes one text of sorted values.
func joinTrailers(reqs []*jobRequest, of func(Job) []git.Trailer, join func([]string) string) (out []git.Trailer) {
	values := map[string][]string{}
	var keys []string
	for _, r := range reqs {
		for _, t := range of(r.job) {
			if _, ok := values[t.Key]; !ok {
				keys = append(keys, t.Key)
			}
			for v := range strings.SplitSeq(t.Value, ",") {
				values[t.Key] = append(values[t.Key], strings.TrimSpace(v))
			}
		}
	}
	for _, k := range keys {
		slices.Sort(values[k])
		out = append(out, git.Trailer{Key: k, Value: join(slices.Compact(values[k]))})
	}
	return out
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

// counted joins values, and counts those beyond the first.
func counted(values []string) string {
	if len(values) <= maxValues {
		return exact(values)
	}
	return fmt.Sprintf("%s, … (%d more)", exact(values), len(values)-maxValues)
}

// exact joins the first values.
func exact(values []string) string {
	return strings.Join(values[:min(len(values), maxValues)], ", ")
}
