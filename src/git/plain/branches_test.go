package plain_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

var (
	_ git.BranchReader  = (*plain.Host)(nil)
	_ git.Replacer      = (*plain.Host)(nil)
	_ git.HistoryReader = (*plain.Host)(nil)
)

var small = git.Limit{Object: 1 << 20, Files: 8}

func all(string, git.Hash) bool { return true }

// Many branches cost one listing and one exchange for each few of them, and what is
// not asked for costs nothing.
func TestBranchesAreReadTogether(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh", "file"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			host := newHost(t)
			bare, repo := serve(t, transport)
			foreign(t, t.Context(), bare, "main", map[string]gittest.File{"README": {Content: "hello"}})
			for i := range 40 {
				name := fmt.Sprintf("status/c%02d", i)
				foreign(t, t.Context(), bare, name, map[string]gittest.File{"report.json": {Content: "report of " + name}, "sub/x": {Content: "x"}, "link": {Mode: "120000", Content: "x"}})
			}
			var asked []string
			got, err := host.Branches(t.Context(), repo, "status/", func(name string, _ git.Hash) bool {
				asked = append(asked, name)
				return name != "status/c07"
			}, small)
			if err != nil || len(got) != 40 || len(asked) != 40 || !slices.IsSorted(asked) {
				t.Fatalf("%d branches, asked for %v, %v; want 40", len(got), asked, err)
			}
			for name, b := range got {
				want := "report of " + name
				if name == "status/c07" {
					want = ""
				}
				if string(b.Files["report.json"]) != want || b.Err != nil || want != "" && len(b.Files) != 2 || len(b.Commit) != 40 {
					t.Errorf("%s = %+v, want %q and the file below sub", name, b, want)
				}
			}
			listings := map[string]uint64{"http": 1}[transport] // a stream serves one exchange
			if listings == 0 {
				listings = 2
			}
			if s := host.Stats(); s.Adverts != listings || s.Fetches != 2 {
				t.Errorf("%d listings and %d packs, want %d and 2", s.Adverts, s.Fetches, listings)
			}
			if _, err := host.Branches(t.Context(), repo, "status/", func(string, git.Hash) bool { return false }, small); err != nil {
				t.Error(err)
			}
			if s := host.Stats(); s.Adverts != listings+1 || s.Fetches != 2 {
				t.Errorf("%d listings and %d packs after a look without change, want one more and none", s.Adverts, s.Fetches)
			}
		})
	}
}

func TestARepositoryWithoutBranchesHasNone(t *testing.T) {
	t.Parallel()
	_, repo := serve(t, "http")
	got, err := newHost(t).Branches(t.Context(), repo, "status/", all, small)
	if err != nil || len(got) != 0 {
		t.Errorf("Branches = %v, %v, want none", got, err)
	}
}

// A branch that holds too much fails alone, and is not loaded: neither from a server
// that can leave large files out nor from one that cannot.
func TestALargeBranchFailsAlone(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"true", "false"} {
		t.Run("filter="+filter, func(t *testing.T) {
			t.Parallel()
			bare, repo := serve(t, "http")
			if err := bare.Config(t.Context(), "uploadpack.allowFilter", filter); err != nil {
				t.Fatal(err)
			}
			noise := make([]byte, 8<<20)
			_, _ = rand.Read(noise)
			many := map[string]gittest.File{}
			for i := range 9 {
				many[fmt.Sprintf("f%d", i)] = gittest.File{Content: "x"}
			}
			for name, files := range map[string]map[string]gittest.File{
				"status/a": {"report.json": {Content: "a"}},
				"status/b": {"report.json": {Content: string(noise)}},
				"status/c": {"report.json": {Content: strings.Repeat("0", 8<<20)}}, // small when packed
				"status/d": many,
				"status/e": {"report.json": {Content: strings.Repeat("e", 1<<20)}}, // just the limit
			} {
				foreign(t, t.Context(), bare, name, files)
			}
			host := newHost(t)
			got, err := host.Branches(t.Context(), repo, "status/", all, small)
			if err != nil {
				t.Fatal(err)
			}
			for name, large := range map[string]bool{"status/a": false, "status/b": true, "status/c": true, "status/d": true, "status/e": false} {
				b := got[name]
				if large && (!errs.Is(b.Err, errs.TooLarge) || b.Files != nil) || !large && (b.Err != nil || len(b.Files["report.json"]) == 0) {
					t.Errorf("%s: %d files, %v; want too large: %v", name, len(b.Files), b.Err, large)
				}
			}
			if n := host.Stats().Received; n > 2<<20 {
				t.Errorf("%d bytes were received, want far less than the large file", n)
			}
		})
	}
}

// A branch whose commit is gone when it is fetched does not fail the others.
func TestABranchThatMovesMeanwhileFailsAlone(t *testing.T) {
	t.Parallel()
	bare, repo := serve(t, "http")
	if err := bare.Config(t.Context(), "uploadpack.allowAnySHA1InWant", "false"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"status/a", "status/b"} {
		foreign(t, t.Context(), bare, name, map[string]gittest.File{"report.json": {Content: name}})
	}
	got, err := newHost(t).Branches(t.Context(), repo, "status/", func(name string, _ git.Hash) bool {
		if name == "status/b" { // the listing is over, the fetch is to come
			if _, err := bare.Git(t.Context(), "", "update-ref", "-d", "refs/heads/status/a"); err != nil {
				t.Error(err)
			}
		}
		return true
	}, small)
	if err != nil || !errs.Is(got["status/a"].Err, errs.NotFound) || string(got["status/b"].Files["report.json"]) != "status/b" {
		t.Errorf("Branches = %v, %v, want b alone", got, err)
	}
}

func TestReplaceKeepsOneCommit(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh", "file"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			host := newHost(t)
			bare, repo := serve(t, transport)
			if err := bare.Config(t.Context(), "receive.denyNonFastForwards", "false"); err != nil {
				t.Fatal(err)
			}
			put := func(old git.Hash, text string) (git.Hash, error) {
				return host.Replace(t.Context(), repo, "status/a", old, map[string][]byte{"report.json": []byte(text)}, git.Message{Title: "report"})
			}
			first, err := put("", "one")
			if err != nil {
				t.Fatal(err)
			}
			second, err := put(first, "two")
			if err != nil || second == first {
				t.Fatalf("Replace = %s, %v, want a new commit", second, err)
			}
			for _, stale := range []git.Hash{"", first} {
				if _, err := put(stale, "three"); !errs.Is(err, errs.Conflict) {
					t.Errorf("Replace of %q: %v, want Conflict", stale, err)
				}
			}
			text, err := bare.Show(t.Context(), "status/a", "report.json")
			if err != nil || text != "two" {
				t.Errorf("the branch holds %q, %v, want two", text, err)
			}
			if n, err := bare.Git(t.Context(), "", "rev-list", "--count", "status/a"); err != nil || n != "1" {
				t.Errorf("%s commits, %v, want 1", n, err)
			}
			if err := bare.Fsck(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReplaceIsForbiddenWhereBranchesOnlyGrow(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	_, repo := serve(t, "http")
	files := map[string][]byte{"f": []byte("1")}
	first, err := host.Replace(t.Context(), repo, "status/a", "", files, git.Message{Title: "report"})
	if err != nil {
		t.Fatal(err)
	}
	files["f"] = []byte("2")
	if _, err := host.Replace(t.Context(), repo, "status/a", first, files, git.Message{Title: "report"}); !errs.Is(err, errs.Forbidden) {
		t.Errorf("Replace: %v, want Forbidden", err)
	}
	if at, err := host.Head(t.Context(), repo, "status/a"); err != nil || at != first {
		t.Errorf("the branch is at %s, %v, want %s", at, err, first)
	}
}

func TestReplaceRefusesInvalidNames(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	repo := git.Repo{URL: "file:///nowhere"}
	for name, files := range map[string]map[string][]byte{
		"a..b": {"f": nil}, "ok": {}, "good": {"../f": nil},
	} {
		if _, err := host.Replace(t.Context(), repo, name, "", files, git.Message{}); !errs.Is(err, errs.Invalid) {
			t.Errorf("Replace(%s, %v): %v, want Invalid", name, files, err)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"true", "false"} {
		bare, repo := serve(t, "http")
		if err := bare.Config(t.Context(), "uploadpack.allowFilter", filter); err != nil {
			t.Fatal(err)
		}
		host := newHost(t)
		var line []git.Hash
		for i := range 6 {
			line = append(line, foreign(t, t.Context(), bare, "main", map[string]gittest.File{"f": {Content: fmt.Sprint(i)}}))
		}
		foreign(t, t.Context(), bare, "side", map[string]gittest.File{"f": {Content: "side"}})
		got, err := host.History(t.Context(), repo, line[5], 3)
		if err != nil || len(got) != 3 {
			t.Fatalf("filter=%s: History = %v, %v, want three commits", filter, got, err)
		}
		for i := 3; i < 6; i++ {
			if p := got[line[i]]; len(p) != 1 || p[0] != line[i-1] {
				t.Errorf("filter=%s: the parents of commit %d are %v, want %s", filter, i, p, line[i-1])
			}
		}
		if got, err = host.History(t.Context(), repo, line[1], 10); err != nil || len(got) != 2 || len(got[line[0]]) != 0 {
			t.Errorf("filter=%s: History = %v, %v, want all there is", filter, got, err)
		}
		if _, err := host.History(t.Context(), repo, git.Hash(strings.Repeat("1", 40)), 10); !errs.Is(err, errs.NotFound) {
			t.Errorf("filter=%s: History of no commit: %v, want NotFound", filter, err)
		}
	}
}
