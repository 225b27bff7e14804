package tree_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// The names are chosen so that files and directories meet, and so that Git's order
// (a directory sorts as if it ended in a slash) differs from the plain one.
var names = []string{"a", "a.b", "a0", "a-b", "b", "B", "ab", "é"}

func drawPath(t *rapid.T, label string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 3).Draw(t, label), "/")
}

func drawContent(t *rapid.T) []byte {
	return []byte(rapid.SampledFrom([]string{"", "one", "two\n", "three\x00"}).Draw(t, "content"))
}

// drawFiles draws a set of files; no path lies below another.
func drawFiles(t *rapid.T, most int) map[string][]byte {
	files := map[string][]byte{}
	for range rapid.IntRange(0, most).Draw(t, "files") {
		path := drawPath(t, "file")
		if !slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(p string) bool { return git.Inside(p, path) || git.Inside(path, p) }) {
			files[path] = drawContent(t)
		}
	}
	return files
}

func drawEdits(t *rapid.T) []git.Edit {
	var edits []git.Edit
	for range rapid.IntRange(1, 4).Draw(t, "edits") {
		e := git.Edit{Path: drawPath(t, "path")}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			e.File = drawContent(t)
		case 1:
			e.Dir = drawFiles(t, 4)
		}
		if git.CheckEdits(append(slices.Clone(edits), e)) == nil {
			edits = append(edits, e)
		}
	}
	return edits
}

// oracle is a git fast-import that gets the same edits and returns its trees.
type oracle struct {
	in    io.Writer
	out   *bufio.Reader
	marks int
}

func startOracle(t *testing.T) *oracle {
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--bare", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "fast-import", "--quiet")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &oracle{in: in, out: bufio.NewReader(out)}
}

// commit applies edits on top of a mark, 0 for nothing, and returns its mark and tree.
func (o *oracle) commit(t *rapid.T, from int, edits []git.Edit) (mark int, root string) {
	o.marks++
	var s strings.Builder
	fmt.Fprintf(&s, "commit refs/heads/c%d\nmark :%d\ncommitter o <o@localhost> 0 +0000\ndata 0\n", o.marks, o.marks)
	if from > 0 {
		fmt.Fprintf(&s, "from :%d\n", from)
	}
	for _, e := range edits {
		fmt.Fprintf(&s, "D %s\n", e.Path)
	}
	put := func(path string, content []byte) {
		fmt.Fprintf(&s, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
	}
	for _, e := range edits {
		if e.File != nil {
			put(e.Path, e.File)
		}
		for rel, content := range e.Dir {
			put(e.Path+"/"+rel, content)
		}
	}
	fmt.Fprintf(&s, "\nls :%d \"\"\n", o.marks)
	if _, err := io.WriteString(o.in, s.String()); err != nil {
		t.Fatal(err)
	}
	line, err := o.out.ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) != 3 || fields[1] != "tree" {
		t.Fatalf("git prints %q, %v", line, err)
	}
	return o.marks, fields[2]
}

// snapshot is a root and all trees below it.
type snapshot struct {
	root  tree.ID
	trees map[tree.ID]tree.Tree
}

func (s snapshot) read(id tree.ID) (tree.Tree, error) {
	if t, ok := s.trees[id]; ok {
		return t, nil
	}
	return nil, tree.Missing(id)
}

// apply returns what edits make of a snapshot, as a snapshot.
func apply(t *rapid.T, base snapshot, edits []git.Edit) (snapshot, error) {
	d, err := tree.Apply(base.read, base.root, tree.NewEdits(edits))
	if err != nil {
		return base, err
	}
	after := snapshot{root: d.Root, trees: maps.Clone(base.trees)}
	for _, o := range d.Objects {
		if o.Kind == tree.Trees {
			if after.trees[o.ID], err = tree.Decode(o.Content); err != nil {
				t.Fatal(err)
			}
		}
	}
	after.check(t, after.root)
	return after, nil
}

// check fails if a tree is missing.
func (s snapshot) check(t *rapid.T, id tree.ID) {
	entries, err := s.read(id)
	if err != nil && id != tree.Empty {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsTree() {
			s.check(t, e.ID)
		}
	}
}

// What we make of random edits on random trees is the tree that git makes of them;
// edits below a file are refused.
func TestTreesEqualThoseOfGit(t *testing.T) {
	t.Parallel()
	o := startOracle(t)
	rapid.Check(t, func(t *rapid.T) {
		start, files := []git.Edit{{Path: "seed", File: []byte("seed")}}, drawFiles(t, 8)
		for path, content := range files {
			start = append(start, git.Edit{Path: path, File: content})
		}
		base, err := apply(t, snapshot{root: tree.Empty, trees: map[tree.ID]tree.Tree{}}, start)
		if err != nil {
			t.Fatal(err)
		}
		mark, want := o.commit(t, 0, start)
		if want != base.root.String() {
			t.Fatalf("first tree is %s, git's is %s", base.root, want)
		}
		edits := drawEdits(t)
		below := func(e git.Edit) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(f string) bool { return f != e.Path && git.Inside(e.Path, f) })
		}
		got, err := apply(t, base, edits)
		if refused := slices.ContainsFunc(edits, below); refused || err != nil {
			if refused != (err != nil) {
				t.Fatalf("edits %v: got error %v, want one: %v", edits, err, refused)
			}
			return
		}
		if _, want := o.commit(t, mark, edits); want != got.root.String() {
			t.Fatalf("edits %v make tree %s, git's is %s", edits, got.root, want)
		}
	})
}

// Any bytes that a server sends as a tree are refused or read; nothing crashes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if entries, err := tree.Decode(data); err == nil {
			again, err := tree.Decode(entries.Encode())
			if err != nil || len(again) != len(entries) {
				t.Errorf("a tree of %d entries comes back with %d, %v", len(entries), len(again), err)
			}
		}
	})
}
