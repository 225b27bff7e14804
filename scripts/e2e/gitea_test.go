package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"

	"github.com/emco-orchestrator/emco/scripts/testbed/gitea"
)

// giteaServer is a real Gitea with one private repository of a team and several users.
type giteaServer struct {
	*gitea.Gitea
	host   *plain.Host
	tokens map[string]git.Secret // of users: owner, writer, reader, stranger
}

const (
	owner = "team"
	scope = "write:repository"
)

func newForge(t *testing.T) giteaServer {
	t.Helper()
	g, err := gitea.Start(t.Context(), gitea.Options{Dir: t.TempDir(), Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	f := giteaServer{Gitea: g, host: plain.New(plain.Options{}), tokens: map[string]git.Secret{}}
	t.Cleanup(func() { _ = f.host.Close() })
	for _, user := range []string{owner, writer, reader, "stranger"} {
		token, err := g.CreateUser(t.Context(), user, scope)
		if err != nil {
			t.Fatal(err)
		}
		f.tokens[user] = git.Secret(token)
	}
	if err := f.makeRepo(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// makeRepo creates the repository; its default branch contains a README.
func (f giteaServer) makeRepo(ctx context.Context) error {
	if err := f.CreateRepo(ctx, owner, repoName); err != nil {
		return err
	}
	for user, permission := range map[string]string{writer: "write", reader: "read"} {
		if err := f.Share(ctx, owner, repoName, user, permission); err != nil {
			return err
		}
	}
	_, err := f.put(ctx, f.as(writer), branch, "", "README.md")
	return err
}

// as returns the repository with a user's token.
func (f giteaServer) as(user string) git.Repo {
	return git.Repo{URL: f.URL(owner, repoName), User: user, Token: f.tokens[user]}
}

// put commits a file on top of a commit.
func (f giteaServer) put(ctx context.Context, r git.Repo, branch string, parent git.Hash, path string) (git.Hash, error) {
	return f.host.Commit(ctx, r, branch, parent, []git.Edit{{Path: path, File: []byte(path)}}, git.Message{Title: "put " + path})
}

// TestGitea tests the host of Git's protocol on a real Gitea.
func TestGitea(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	t.Run("keeps the contract", func(t *testing.T) {
		if err := gittest.Check(t.Context(), f.host, f.as(writer), f.RepoDir(owner, repoName)); err != nil {
			t.Error(err)
		}
	})
	t.Run("distinguishes users", f.users)
	t.Run("accepts writers and people concurrently", f.writers)
	t.Run("protects branches", f.protection) // the last one: afterwards no user can push to main
}

// users have their permissions: strangers, invalid users and readers get errors.
func (f giteaServer) users(t *testing.T) {
	wrong := f.as(writer)
	wrong.Token = "0123456789abcdef0123456789abcdef01234567"
	renamed := f.as(writer)
	renamed.User = "whatever"
	for _, c := range []struct {
		name          string
		repo          git.Repo
		reads, writes errs.Kind // Internal: it works
	}{
		{"a writer", f.as(writer), errs.Internal, errs.Internal},
		{"a writer's token with another name", renamed, errs.Internal, errs.Internal},
		{"a reader", f.as(reader), errs.Internal, errs.Forbidden},
		{"a stranger", f.as("stranger"), errs.NotFound, errs.NotFound},
		{"a wrong token", wrong, errs.Unauthorized, errs.Unauthorized},
		{"no token", git.Repo{URL: f.URL(owner, repoName)}, errs.Unauthorized, errs.Unauthorized},
	} {
		_, err := f.host.Head(t.Context(), c.repo, branch)
		if errs.KindOf(err) != c.reads || (err == nil) != (c.reads == errs.Internal) {
			t.Errorf("%s reads: %v of kind %v, want %v", c.name, err, errs.KindOf(err), c.reads)
		}
		_, err = f.put(t.Context(), c.repo, "users-"+strings.NewReplacer(" ", "-", "'", "").Replace(c.name), "", "f")
		if errs.KindOf(err) != c.writes || (err == nil) != (c.writes == errs.Internal) {
			t.Errorf("%s writes: %v of kind %v, want %v", c.name, err, errs.KindOf(err), c.writes)
		}
		if err != nil && strings.Contains(err.Error(), c.repo.Token.Reveal()) && c.repo.Token != "" {
			t.Errorf("%s: the error contains the token: %v", c.name, err)
		}
	}
}

// writers commit through one queue while a user commits with Gitea's editor.
func (f giteaServer) writers(t *testing.T) {
	w := batch.New(f.host, batch.Options{})
	defer w.Close()
	var wg sync.WaitGroup
	const ours, theirs = 20, 5
	wg.Go(func() {
		for i := range theirs {
			if err := f.edit(t.Context(), fmt.Sprintf("theirs/%d", i)); err != nil {
				t.Errorf("commit in the editor: %v", err)
			}
		}
	})
	for i := range ours {
		wg.Go(func() {
			job := batch.Job{Repo: f.as(writer), Branch: branch, Edits: []git.Edit{{Path: fmt.Sprintf("ours/%d", i), File: []byte("o")}}, Title: "ours"}
			if _, err := w.Submit(t.Context(), job); err != nil {
				t.Errorf("Submit: %v", err)
			}
		})
	}
	wg.Wait()
	out, err := gittest.Bare{Dir: f.RepoDir(owner, repoName)}.Git(t.Context(), "", "ls-tree", "-r", "--name-only", branch)
	if err != nil || strings.Count(out, "ours/") != ours || strings.Count(out, "theirs/") != theirs || !strings.Contains(out, "README.md") {
		t.Errorf("the branch contains %q, %v, want %d files of ours and %d of theirs", out, err, ours, theirs)
	}
}

// edit commits a new file with Gitea's editor. After a lost race it returns an error, and callers
// retry.
func (f giteaServer) edit(ctx context.Context, path string) (err error) {
	for range 30 {
		err = f.CommitFile(ctx, owner, repoName, branch, path, "t")
		if err == nil || !strings.Contains(err.Error(), "cannot lock ref") {
			return err
		}
	}
	return err
}

// protection refuses with Gitea's words, and leaves the branch and others alone.
func (f giteaServer) protection(t *testing.T) {
	if err := f.Protect(t.Context(), owner, repoName, branch); err != nil {
		t.Fatal(err)
	}
	before, err := f.host.Head(t.Context(), f.as(writer), branch)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.put(t.Context(), f.as(writer), branch, before, "f")
	if !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "protected branch main") {
		t.Errorf("Commit to a protected branch: %v of kind %v, want Forbidden with Gitea's words", err, errs.KindOf(err))
	}
	if after, err := f.host.Head(t.Context(), f.as(writer), branch); err != nil || after != before {
		t.Errorf("the branch is at %s, %v, want %s", after, err, before)
	}
	if _, err := f.put(t.Context(), f.as(writer), "emco/main", "", "f"); err != nil {
		t.Errorf("Commit to another branch: %v", err)
	}
}
