package plain_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
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

// drawFiles draws a set of files none of which is below another.
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

// oracle applies edits with git fast-import on top of a commit that holds the
// paths in present. It says no if an edit is below a file, which git would silently
// replace.
func oracle(t *rapid.T, b gittest.Bare, parent git.Hash, present []string, edits []git.Edit) (ref string, allowed bool) {
	var s strings.Builder
	ref = "refs/heads/oracle-" + string(parent)
	fmt.Fprintf(&s, "feature done\ncommit %s\ncommitter o <o@localhost> 0 +0000\ndata 0\nfrom %s\n", ref, parent)
	for _, e := range edits {
		for _, p := range present {
			if p != e.Path && git.Inside(e.Path, p) {
				return "", false
			}
		}
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
	if _, err := b.Git(t.Context(), s.String()+"done\n", "fast-import", "--quiet", "--force"); err != nil {
		t.Fatal(err)
	}
	return ref, true
}

// What we make of random edits on random trees is the tree that git makes of them.
func TestTreesEqualThoseOfGit(t *testing.T) {
	t.Parallel()
	bare, repo := serve(t, "file")
	host := plain.New(plain.Options{AllowFile: true})
	base := git.Edit{Path: "seed", File: []byte("seed")}
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		branch := fmt.Sprintf("p%d", n)
		m := git.Message{Title: "p", When: time.Unix(int64(n), 0)}
		start, files := []git.Edit{base}, drawFiles(t, 8)
		for path, content := range files {
			start = append(start, git.Edit{Path: path, File: content})
		}
		at, err := host.Commit(t.Context(), repo, branch, "", start, m)
		if err != nil {
			t.Fatal(err)
		}
		edits := drawEdits(t)
		want, allowed := oracle(t, bare, at, slices.Collect(maps.Keys(files)), edits)
		got, err := host.Commit(t.Context(), repo, branch, at, edits, m)
		if (err == nil) != allowed {
			t.Fatalf("Commit(%v) = %v, want success %v", edits, err, allowed)
		}
		if !allowed {
			return
		}
		trees, err := bare.Git(t.Context(), "", "rev-parse", string(got)+"^{tree}", want+"^{tree}")
		ours, theirs, _ := strings.Cut(trees, "\n")
		if err != nil || ours != theirs {
			t.Fatalf("Commit(%v) made tree %s, %v, want %s", edits, ours, err, theirs)
		}
	})
	if err := bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}
