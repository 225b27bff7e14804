package fastimport_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/fastimport"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

var _ git.DerivedWriter = (*fastimport.Host)(nil)

// Whether or not the server can move several branches or none.
func TestViewsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh", "file"} {
		for _, atomic := range []bool{true, false} {
			t.Run(fmt.Sprint(transport, " atomic ", atomic), func(t *testing.T) {
				t.Parallel()
				bare, repo := serve(t, transport)
				h := newHost(t, fastimport.Options{})
				if err := gittest.CheckDerived(t.Context(), gittest.DerivedRepo{Host: h, Repo: repo, Bare: bare}, atomic); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A view that is moved while the push is under way stops all of it.
func TestAViewThatIsLostInARaceMovesNothing(t *testing.T) {
	t.Parallel()
	for name, h := range engines(t) {
		srv, bare, repo := server(t)
		s := git.DerivedUpdate{Branch: "shard", Edits: []git.Edit{{Path: "c/f", File: []byte("1")}}, Derived: []git.DerivedBranch{{Branch: "view", Dir: "c"}}, Message: git.Message{Title: "t"}}
		shown, err := h.(git.DerivedWriter).CommitDerived(t.Context(), repo, s)
		if err != nil {
			t.Fatal(err)
		}
		srv.BeforePush(func(string) {
			srv.BeforePush(nil)
			foreign(t, t.Context(), bare, "view", map[string]gittest.File{"x": {Content: "x"}})
		})
		s.Parent, s.Edits = shown.Commit, []git.Edit{{Path: "c/f", File: []byte("2")}}
		_, err = h.(git.DerivedWriter).CommitDerived(t.Context(), repo, s)
		wantErr(t, name, err, errs.Conflict)
		if head, err := h.Head(t.Context(), repo, "shard"); err != nil || head != shown.Commit {
			t.Errorf("%s: the branch moved without its view: %s, %v", name, head, err)
		}
	}
}

// Hundreds of views cost one push, and both engines make the same commits of them.
func TestManyViewsCostOnePush(t *testing.T) {
	t.Parallel()
	const views = 200
	made := map[string]string{}
	for name, h := range engines(t) {
		srv, bare, repo := server(t)
		s := git.DerivedUpdate{Branch: "shard", Message: git.Message{Title: "t", When: stamp}}
		for i := range views {
			dir := fmt.Sprintf("clusters/p+c%03d", i)
			s.Derived = append(s.Derived, git.DerivedBranch{Branch: dir, Dir: dir})
			s.Edits = append(s.Edits, git.Edit{Path: dir, Dir: map[string][]byte{"f": []byte("1")}})
		}
		if _, err := h.(git.DerivedWriter).CommitDerived(t.Context(), repo, s); err != nil {
			t.Fatal(err)
		}
		if _, pushes := srv.Requests(); pushes != 1 {
			t.Errorf("%s: %d pushes, want 1", name, pushes)
		}
		refs, err := bare.Git(t.Context(), "", "for-each-ref", "refs/heads")
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(refs, "refs/heads/clusters/"); n != views {
			t.Errorf("%s: %d views, want %d", name, n, views)
		}
		made[name] = refs
	}
	if made["direct"] != made["fast-import"] {
		t.Error("the engines make different commits")
	}
}
