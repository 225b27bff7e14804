package gittest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
	"github.com/emco-orchestrator/emco/src/git/gittest/gitlabtest"
)

// A push goes on in the server when its client has left. Close waits for it, so no test ends while the server still
// writes to its folder.
func TestCloseWaitsForPushesOfClientsThatLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git, err := gittest.Serve(filepath.Join(dir, "git"))
	must(t, err)
	github, err := githubtest.Serve(filepath.Join(dir, "github"), githubtest.Options{}, githubtest.User{Name: "u", Token: "t", Write: true})
	must(t, err)
	gitlab, err := gitlabtest.Serve(filepath.Join(dir, "gitlab"), "")
	must(t, err)
	gitlab.AddToken(gitlabtest.Token{Value: "t", Scopes: []string{"api"}, Level: gitlabtest.Maintainer})
	for name, tt := range map[string]struct {
		create func() (gittest.Bare, error)
		url    string
		close  func() error
	}{
		"git":    {func() (gittest.Bare, error) { return git.CreateRepo(t.Context(), "fleet", "main") }, git.URL("fleet"), git.Close},
		"github": {func() (gittest.Bare, error) { return github.CreateRepo(t.Context(), "org", "fleet", "main") }, github.URL() + "/org/fleet.git", github.Close},
		"gitlab": {func() (gittest.Bare, error) { return gitlab.CreateProject(t.Context(), "org/fleet", "main") }, gitlab.URL("org/fleet"), gitlab.Close},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare, err := tt.create()
			must(t, err)
			_, err = bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"README.md": {Content: "fleet"}})
			must(t, err)
			closeWaits(t, bare, strings.Replace(tt.url, "://", "://u:t@", 1), tt.close)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// closeWaits pushes, leaves while the push is under way, and wants that close ends after it.
func closeWaits(t *testing.T, bare gittest.Bare, url string, closeServer func() error) {
	t.Helper()
	marks := t.TempDir()
	begun, ended := filepath.Join(marks, "begun"), filepath.Join(marks, "ended")
	if err := bare.Hook("pre-receive", "touch "+begun+"; sleep 1; touch "+ended); err != nil {
		t.Fatal(err)
	}
	clone := t.TempDir()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if out, err := exec.CommandContext(ctx, "git", "clone", "-q", url, clone).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	push := exec.CommandContext(ctx, "git", "push", "-q", "origin", "HEAD:refs/heads/other")
	push.Dir = clone
	if err := push.Start(); err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() { left <- push.Wait() }()
	for begins := time.Tick(time.Millisecond); ; {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		select {
		case err := <-left:
			t.Fatalf("the push ended before its hook began: %v", err)
		case <-begins:
		}
	}
	leave()
	<-left
	if err := closeServer(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ended); err != nil {
		t.Errorf("the server is closed, and the push still runs: %v", err)
	}
}
