package plain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// shared returns what a thousand clusters get that all get the same: three apps of
// ten files, the maps shared or, as after a restart, equal but apart.
func shared(clusters int, version string, apart bool) []git.Edit {
	app := func(a int) map[string][]byte {
		files := map[string][]byte{}
		for f := range 10 {
			files[fmt.Sprintf("f%d.yaml", f)] = fmt.Appendf(nil, "app: %d\nfile: %d\nversion: %s\n%s", a, f, version, strings.Repeat("k: v\n", 200))
		}
		return files
	}
	apps := []map[string][]byte{app(0), app(1), app(2)}
	var edits []git.Edit
	for c := range clusters {
		for a := range apps {
			dir := apps[a]
			if apart {
				dir = app(a)
			}
			edits = append(edits, git.Edit{Path: fmt.Sprintf("clusters/p+c%04d/context/1/app/app%d", c, a), Dir: dir})
		}
	}
	return edits
}

// Content that a thousand clusters share is in a commit once.
func TestSharedContentIsSentOnce(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("apart=%v", apart), func(t *testing.T) {
			t.Parallel()
			_, bare, repo := server(t)
			host := plain.New(plain.Options{})
			at, err := host.Commit(t.Context(), repo, "main", "", shared(1000, "1", apart), git.Message{Title: "roll out"})
			if err != nil {
				t.Fatal(err)
			}
			first := host.Stats()
			// 30 files, 3 directories of files; app, 1, context, cluster, clusters, root; the commit.
			if n, err := bare.Git(t.Context(), "", "rev-list", "--objects", "--count", "main"); err != nil || n != "40" {
				t.Errorf("the branch has %s objects, %v, want 40", n, err)
			}
			if first.Sent > 64<<10 || first.Pushes != 1 {
				t.Errorf("%d bytes in %d pushes, want at most 64 KiB in one", first.Sent, first.Pushes)
			}
			again, err := host.Commit(t.Context(), repo, "main", at, shared(1000, "1", true), git.Message{Title: "again"})
			if err != nil || again != at {
				t.Errorf("Commit of the same = %s, %v, want %s", again, err, at)
			}
			if host.Stats() != first {
				t.Errorf("the same again caused traffic: %+v, before %+v", host.Stats(), first)
			}
			files := 0
			for _, err := range host.Tree(t.Context(), repo, at, "clusters") {
				if err != nil {
					t.Fatal(err)
				}
				files++
			}
			if files != 30_000 {
				t.Errorf("Tree lists %d files, want 30000", files)
			}
			if err := bare.Fsck(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A push that is too large to hold streams, over every transport.
func TestLargePushStreams(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh", "file"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			bare, repo := serve(t, transport)
			host := plain.New(plain.Options{AllowFile: true})
			files := map[string][]byte{}
			for f := range 2000 {
				files[fmt.Sprintf("d%d/f%d", f%50, f)] = fmt.Appendf(nil, "%d %s", f, strings.Repeat(fmt.Sprint(f*f), 300))
			}
			at, err := host.Commit(t.Context(), repo, "main", "", []git.Edit{{Path: "all", Dir: files}}, git.Message{Title: "large"})
			if err != nil {
				t.Fatal(err)
			}
			if got := gitList(t, bare, at); len(got) != len(files) {
				t.Errorf("git lists %d files, want %d", len(got), len(files))
			}
			if err := bare.Reject("no"); err != nil {
				t.Fatal(err)
			}
			files["another"] = []byte(strings.Repeat("x", 3<<20))
			if _, err := host.Commit(t.Context(), repo, "main", at, []git.Edit{{Path: "more", Dir: files}}, git.Message{}); err == nil {
				t.Error("a large push that is refused succeeds")
			}
		})
	}
}

func BenchmarkCommitShared(b *testing.B) {
	dirs := [][]git.Edit{shared(1000, "1", false), shared(1000, "2", false)}
	_, _, repo := server(b)
	host := plain.New(plain.Options{})
	var at git.Hash
	var err error
	for i := 0; b.Loop(); i++ {
		if at, err = host.Commit(b.Context(), repo, "main", at, dirs[i%2], git.Message{Title: "b"}); err != nil {
			b.Fatal(err)
		}
	}
}
