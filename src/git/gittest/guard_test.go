package gittest_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// A user who may write some references only is refused all others, by the repository.
func TestUsersMayBeBoundToReferences(t *testing.T) {
	t.Parallel()
	srv, err := gittest.Serve(t.TempDir(),
		gittest.User{Name: "emco", Token: "e", Write: true},
		gittest.User{Name: "edge", Token: "x", Write: true, Only: "refs/heads/status/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	if _, err := srv.CreateRepo(t.Context(), "fleet", "main"); err != nil {
		t.Fatal(err)
	}
	host := plain.New(plain.Options{})
	t.Cleanup(func() { _ = host.Close() })
	for _, c := range []struct {
		user, token, branch string
		allowed             bool
	}{
		{"edge", "x", "main", false},
		{"edge", "x", "statusless", false},
		{"edge", "x", "status/c1", true},
		{"emco", "e", "main", true},
	} {
		repo := git.Repo{URL: srv.URL("fleet"), User: c.user, Token: git.Secret(c.token)}
		_, err := host.Commit(t.Context(), repo, c.branch, "", []git.Edit{{Path: "f", File: []byte("x")}}, git.Message{Title: "t"})
		if c.allowed && err != nil || !c.allowed && !errs.Is(err, errs.Forbidden) {
			t.Errorf("%s writes %s: %v, want allowed: %v", c.user, c.branch, err, c.allowed)
		}
	}
}
