package plain_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

var _ git.DerivedWriter = (*plain.Host)(nil)

// placeholder is what views of empty directories hold.
var placeholder = map[string][]byte{"kustomization.yaml": []byte("kind: Kustomization\n")}

// viewsOf are the views of clusters c0, c1 …
func viewsOf(clusters ...string) (views []git.DerivedBranch) {
	for _, c := range clusters {
		views = append(views, git.DerivedBranch{Branch: "clusters/p+" + c, Dir: "clusters/p+" + c, Empty: placeholder})
	}
	return views
}

func app(cluster, content string) git.Edit {
	return git.Edit{Path: "clusters/p+" + cluster + "/context/1", Dir: map[string][]byte{"app/a/f.yaml": []byte(content)}}
}

// stage is a repository whose branch "shard" is written with views.
type stage struct {
	t    *testing.T
	host *plain.Host
	bare gittest.Bare
	repo git.Repo
	head git.Hash
}

func (s *stage) commit(views []git.DerivedBranch, edits ...git.Edit) git.DerivedResult {
	s.t.Helper()
	shown, err := s.host.CommitDerived(s.t.Context(), s.repo, git.DerivedUpdate{Branch: "shard", Parent: s.head, Edits: edits, Derived: views, Message: git.Message{Title: "t"}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.head = shown.Commit
	return shown
}

func (s *stage) git(args ...string) string {
	s.t.Helper()
	out, err := s.bare.Git(s.t.Context(), "", args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// check compares the views with the branch, and their sources with the expected ones.
func (s *stage) check(shown git.DerivedResult, sources map[string]git.Hash) {
	s.t.Helper()
	for branch, source := range sources {
		found := strings.Fields(s.git("rev-parse", branch, branch+":"+branch, "shard:"+branch))
		if found[0] != string(shown.Heads[branch]) {
			s.t.Errorf("%s is at %s, but reported at %s", branch, found[0], shown.Heads[branch])
		}
		if found[1] != found[2] {
			s.t.Errorf("%s shows tree %s, the branch holds %s", branch, found[1], found[2])
		}
		if files := s.git("ls-tree", "-r", "--name-only", branch); strings.Count(files, "\n") != strings.Count(s.git("ls-tree", "-r", "--name-only", "shard", branch), "\n") {
			s.t.Errorf("%s shows more than its own: %s", branch, files)
		}
		if got := s.git("log", "-1", "--format=%(trailers:key=Emco-Source,valueonly,separator=)", branch); got != string(source) {
			s.t.Errorf("%s names %s as its source, want %s", branch, got, source)
		}
	}
	if err := s.bare.Fsck(s.t.Context()); err != nil {
		s.t.Error(err)
	}
}

func TestViewsMoveInThePushOfTheirBranch(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh", "file"} {
		for _, atomic := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, atomic %v", transport, atomic), func(t *testing.T) {
				t.Parallel()
				bare, repo := serve(t, transport)
				if err := bare.Config(t.Context(), "receive.advertiseAtomic", fmt.Sprint(atomic)); err != nil {
					t.Fatal(err)
				}
				s := &stage{t: t, host: newHost(t), bare: bare, repo: repo}
				views := viewsOf("c0", "c1", "c2")
				first := s.commit(views, app("c0", "one"), app("c1", "one"), app("c2", "one"))
				one := map[string]git.Hash{"clusters/p+c0": first.Commit, "clusters/p+c1": first.Commit, "clusters/p+c2": first.Commit}
				s.check(first, one)
				if n, want := s.host.Stats().Pushes, map[bool]uint64{true: 1, false: 2}[atomic]; n != want {
					t.Errorf("%d pushes, want %d", n, want)
				}
				second := s.commit(views, app("c1", "two"))
				one["clusters/p+c1"] = second.Commit
				s.check(second, one)
				if second.Heads["clusters/p+c0"] != first.Heads["clusters/p+c0"] {
					t.Error("a view moved although nothing it shows has changed")
				}
				if n := s.git("rev-list", "--count", "clusters/p+c1"); n != "2" || len(second.Diverged) > 0 {
					t.Errorf("the view has %s commits, want 2; strange: %v", n, second.Diverged)
				}
				before := s.host.Stats().Pushes
				if again := s.commit(views, app("c1", "two")); !maps.Equal(again.Heads, second.Heads) || s.host.Stats().Pushes != before {
					t.Errorf("the same again came to %v", again)
				}
			})
		}
	}
}

// A view of removed files keeps its directory, so that a reconciler prunes their objects.
func TestAViewOfNothingKeepsItsDirectory(t *testing.T) {
	t.Parallel()
	bare, repo := serve(t, "file")
	s := &stage{t: t, host: newHost(t), bare: bare, repo: repo}
	s.commit(viewsOf("c0"), app("c0", "one"), app("c1", "one"))
	s.commit(viewsOf("c0"), git.Edit{Path: "clusters/p+c0/context/1"})
	if files := s.git("ls-tree", "-r", "--name-only", "clusters/p+c0"); files != "clusters/p+c0/kustomization.yaml" {
		t.Errorf("the view holds %s", files)
	}
	if n := s.git("rev-list", "--count", "clusters/p+c0"); n != "2" {
		t.Errorf("the view has %s commits, want 2", n)
	}
}

// H-49 for views: a change by someone else is repaired by a commit on top, without force,
// and reported.
func TestH49ViewsThatSomebodyElseMovedArePutRight(t *testing.T) {
	t.Parallel()
	bare, repo := serve(t, "http")
	s := &stage{t: t, host: newHost(t), bare: bare, repo: repo}
	views := viewsOf("c0", "c1", "c2")
	first := s.commit(views, app("c0", "one"), app("c1", "one"), app("c2", "one"))
	theirs := foreign(t, t.Context(), bare, "clusters/p+c0", map[string]gittest.File{"clusters/p+c0/evil.yaml": {Content: "evil"}})
	s.git("update-ref", "-d", "refs/heads/clusters/p+c1")
	s.host = newHost(t) // after a restart nothing is known of views
	repaired := s.commit(views)
	if repaired.Commit != first.Commit || !slices.Equal(repaired.Diverged, []string{"clusters/p+c0"}) || !slices.Equal(repaired.Created, []string{"clusters/p+c1"}) {
		t.Errorf("the repair came to %+v", repaired)
	}
	s.check(repaired, map[string]git.Hash{"clusters/p+c0": first.Commit, "clusters/p+c1": first.Commit, "clusters/p+c2": first.Commit})
	if parent := s.git("rev-parse", "clusters/p+c0^"); parent != string(theirs) {
		t.Errorf("the view's commit is on top of %s, want %s", parent, theirs)
	}
	if repaired.Heads["clusters/p+c2"] != first.Heads["clusters/p+c2"] {
		t.Error("a view that was right moved")
	}
	if n := s.host.Stats().Pushes; n != 1 {
		t.Errorf("%d pushes, want 1", n)
	}
}

// A view that moves while a push is under way stops all of it, where the server can do that.
func TestAViewThatIsLostInARaceMovesNothing(t *testing.T) {
	t.Parallel()
	srv, bare, repo := server(t)
	s := &stage{t: t, host: newHost(t), bare: bare, repo: repo}
	first := s.commit(viewsOf("c0", "c1"), app("c0", "one"), app("c1", "one"))
	srv.BeforePush(func(string) {
		srv.BeforePush(nil)
		foreign(t, t.Context(), bare, "clusters/p+c1", map[string]gittest.File{"x": {Content: "x"}})
	})
	_, err := s.host.CommitDerived(t.Context(), repo, git.DerivedUpdate{Branch: "shard", Parent: s.head, Edits: []git.Edit{app("c0", "two")}, Derived: viewsOf("c0", "c1")})
	if err != nil {
		t.Fatalf("a view that needs no move stands in the way: %v", err)
	}
	s.head = git.Hash(s.git("rev-parse", "shard"))
	srv.BeforePush(func(string) {
		srv.BeforePush(nil)
		foreign(t, t.Context(), bare, "clusters/p+c0", map[string]gittest.File{"x": {Content: "x"}})
	})
	_, err = s.host.CommitDerived(t.Context(), repo, git.DerivedUpdate{Branch: "shard", Parent: s.head, Edits: []git.Edit{app("c0", "three")}, Derived: viewsOf("c0", "c1")})
	if !errs.Is(err, errs.Conflict) {
		t.Fatalf("the race came to %v, want Conflict", err)
	}
	if at := s.git("rev-parse", "shard"); at != string(s.head) {
		t.Error("the branch moved without its views")
	}
	last := s.commit(viewsOf("c0", "c1"), app("c0", "three"))
	s.check(last, map[string]git.Hash{"clusters/p+c0": last.Commit, "clusters/p+c1": last.Commit})
	if len(last.Diverged) != 2 || first.Commit == last.Commit {
		t.Errorf("strange: %v, want both", last.Diverged)
	}
}

// What all hosts promise that speak Git's own protocol.
func TestViewsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh", "file"} {
		for _, atomic := range []bool{true, false} {
			t.Run(fmt.Sprint(transport, " atomic ", atomic), func(t *testing.T) {
				t.Parallel()
				bare, repo := serve(t, transport)
				if err := gittest.CheckDerived(t.Context(), gittest.DerivedRepo{Host: newHost(t), Repo: repo, Bare: bare}, atomic); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestViewsThatCannotBeAreInvalid(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for name, views := range map[string][]git.DerivedBranch{
		"itself":      {{Branch: "shard", Dir: "a"}},
		"twice":       {{Branch: "v", Dir: "a"}, {Branch: "v", Dir: "b"}},
		"bad branch":  {{Branch: "a..b", Dir: "a"}},
		"leading out": {{Branch: "v", Dir: "../a"}},
		"bad file":    {{Branch: "v", Dir: "a", Empty: map[string][]byte{".git/x": nil}}},
	} {
		_, err := h.CommitDerived(t.Context(), git.Repo{URL: "https://git.example.org/r"}, git.DerivedUpdate{Branch: "shard", Derived: views})
		if !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}

// A thousand views cost one push, of three small objects each.
func TestAThousandViewsCostOnePush(t *testing.T) {
	t.Parallel()
	bare, repo := serve(t, "http")
	s := &stage{t: t, host: newHost(t), bare: bare, repo: repo}
	var views []git.DerivedBranch
	for c := range 1000 {
		views = append(views, viewsOf(fmt.Sprintf("c%04d", c))...)
	}
	s.commit(views, shared(1000, "1", false)...)
	first := s.host.Stats()
	s.commit(views, shared(1000, "2", false)...)
	second := s.host.Stats()
	t.Logf("first %d bytes, second %d bytes", first.Sent, second.Sent-first.Sent)
	if first.Pushes != 1 || second.Pushes != 2 || second.Fetches != 0 {
		t.Errorf("%+v", second)
	}
	if n := strings.Count(s.git("for-each-ref", "--contains", string(s.head), "refs/heads/shard")+"\n", "\n"); n != 1 {
		t.Error("the branch is not there")
	}
	if n := strings.Count(s.git("for-each-ref", "refs/heads/clusters")+"\n", "\n"); n != 1000 {
		t.Errorf("%d views, want 1000", n)
	}
	s.host = newHost(t)
	s.commit(views)
	if after := s.host.Stats(); after.Pushes != 0 || after.Fetches > 3 {
		t.Errorf("after a restart: %+v, want no push and at most 3 fetches", after)
	}
}
