package gitlabtest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/gitlabtest"
)

// work is a clone, as someone has one who works with the git program.
type work struct {
	dir string
	srv *gitlabtest.Server
}

// clone clones a project with a token.
func clone(t *testing.T, srv *gitlabtest.Server, token string) work {
	t.Helper()
	w := work{dir: filepath.Join(t.TempDir(), "clone"), srv: srv}
	if out, err := run(t.Context(), filepath.Dir(w.dir), "clone", "-q", w.url(token), w.dir); err != nil {
		t.Fatalf("clone: %v: %s", err, out)
	}
	return w
}

func (w work) url(token string) string {
	return strings.Replace(w.srv.URL("acme/shop/till"), "://", "://oauth2:"+token+"@", 1)
}

// commit adds a file, or with amend replaces the last commit.
func (w work) commit(t *testing.T, amend bool) {
	t.Helper()
	steps := [][]string{{"add", "."}, {"commit", "-q", "-m", "work"}}
	if amend {
		steps[1] = []string{"commit", "-q", "--amend", "-m", "other work"}
	}
	if err := os.WriteFile(filepath.Join(w.dir, t.Name()), []byte("f"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range steps {
		if out, err := run(t.Context(), w.dir, args...); err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
	}
}

func run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.test", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.test")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The git program clones and pushes, and is refused as GitLab does it, in its words.
func TestTheGitProgramWorksAndIsRefused(t *testing.T) {
	t.Parallel()
	srv, err := gitlabtest.Serve(t.TempDir(), "/gitlab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	srv.AddToken(gitlabtest.Token{Value: "maintains", Scopes: []string{"api"}, Level: gitlabtest.Maintainer})
	srv.AddToken(gitlabtest.Token{Value: "develops", Under: "acme", Scopes: []string{"write_repository"}, Level: gitlabtest.Developer})
	srv.AddToken(gitlabtest.Token{Value: "reads", Under: "acme/shop/till", Scopes: []string{"read_repository"}, Level: gitlabtest.Developer})
	bare, err := srv.CreateProject(t.Context(), "acme/shop/till", "main")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"README.md": {Content: "till\n"}}); err != nil {
		t.Fatal(err)
	}
	w := clone(t, srv, "develops")
	w.commit(t, false)
	for _, c := range []struct{ name, token, to, words string }{
		{"a developer", "develops", "main", "GitLab: You are not allowed to push code to protected branches on this project."},
		{"a token that reads", "reads", "side", "403"},
		{"nobody", "nobody", "side", "Authentication failed"},
		{"a maintainer", "maintains", "main", ""},
		{"a developer, elsewhere", "develops", "side", ""},
	} {
		w.push(t, c.name, "HEAD:refs/heads/"+c.to, c.token, c.words)
	}
	w.commit(t, true)
	w.push(t, "a maintainer by force", "+HEAD:refs/heads/main", "maintains", "GitLab: You are not allowed to force push code to a protected branch on this project.")
	w.push(t, "a developer by force, elsewhere", "+HEAD:refs/heads/side", "develops", "")
}

// push pushes with a token. If words are given, the push must fail and print them.
func (w work) push(t *testing.T, who, refs, token, words string) {
	t.Helper()
	out, err := run(t.Context(), w.dir, "push", w.url(token), refs)
	if (err == nil) != (words == "") || !strings.Contains(out, words) {
		t.Errorf("%s pushes %s: %v, want %q in:\n%s", who, refs, err, words, out)
	}
}
