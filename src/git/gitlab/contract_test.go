package gitlab_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gitlab"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/gitlabtest"
)

const (
	project    = "fleets/north/edge"
	maintainer = "glpat-maintainer"
	developer  = "glpat-developer"
)

// stage is a GitLab with one project, and the host.
type stage struct {
	*gitlabtest.Server
	bare gittest.Bare
	host *gitlab.Host
	repo git.Repo // of a maintainer
}

// start starts a GitLab with a prefix in front of its paths.
func start(t *testing.T, prefix string, o gitlab.Options) stage {
	t.Helper()
	srv, err := gitlabtest.Serve(t.TempDir(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	srv.AddToken(gitlabtest.Token{Value: maintainer, Scopes: []string{"api"}, Level: gitlabtest.Maintainer})
	srv.AddToken(gitlabtest.Token{Value: developer, Scopes: []string{"api"}, Level: gitlabtest.Developer})
	bare, err := srv.CreateProject(t.Context(), project, "main")
	if err != nil {
		t.Fatal(err)
	}
	host := gitlab.New(o)
	t.Cleanup(func() { _ = host.Close() })
	return stage{Server: srv, bare: bare, host: host, repo: git.Repo{URL: srv.URL(project), User: "oauth2", Token: maintainer, Provider: "gitlab"}}
}

// seeded starts a GitLab whose project has a README; where its API is is known.
func seeded(t *testing.T) stage {
	t.Helper()
	s := start(t, "", gitlab.Options{})
	s.repo.API = s.API()
	s.foreign(t, "main", "README.md")
	return s
}

// foreign commits a file as someone else.
func (s stage) foreign(t *testing.T, branch, path string) git.Hash {
	t.Helper()
	at, err := s.bare.CommitExternal(t.Context(), branch, map[string]gittest.File{path: {Content: path}})
	if err != nil {
		t.Fatal(err)
	}
	return git.Hash(at)
}

// branchOff makes a branch off main with a file.
func (s stage) branchOff(t *testing.T, branch, path string) git.Hash {
	t.Helper()
	if _, err := s.bare.Git(t.Context(), "", "branch", branch, "main"); err != nil {
		t.Fatal(err)
	}
	return s.foreign(t, branch, path)
}

// as returns the repository with another token.
func (s stage) as(token git.Secret) git.Repo {
	s.repo.Token = token
	return s.repo
}

// put commits a file on top of a branch.
func (s stage) put(ctx context.Context, r git.Repo, branch, path string) (git.Hash, error) {
	head, err := s.host.Head(ctx, r, branch)
	if err != nil {
		return "", err
	}
	return s.host.Commit(ctx, r, branch, head, []git.Edit{{Path: path, File: []byte(path)}}, git.Message{Title: "put " + path})
}

// The contract holds with the URL that Git uses, and with the one that people use, which
// GitLab redirects.
func TestGitLabKeepsTheContract(t *testing.T) {
	t.Parallel()
	for name, suffix := range map[string]string{"the URL of the repository": ".git", "the URL of the project": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "/gitlab", gitlab.Options{})
			s.repo.URL = strings.TrimSuffix(s.repo.URL, ".git") + suffix
			if err := gittest.Check(t.Context(), s.host, s.repo, s.bare.Dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// Twenty callers write while someone else commits without pause: nothing is lost.
func TestH47WritersAndAForeignCommitter(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	w := batch.New(s.host, batch.Options{})
	defer w.Close()
	var wg sync.WaitGroup
	const theirs = 25
	wg.Go(func() {
		for i := range theirs {
			if _, err := s.bare.CommitExternal(t.Context(), "main", map[string]gittest.File{fmt.Sprintf("theirs/%d", i): {Content: "t"}}); err != nil {
				t.Errorf("foreign commit: %v", err)
			}
		}
	})
	for i := range 20 {
		wg.Go(func() {
			job := batch.Job{Repo: s.repo, Branch: "main", Edits: []git.Edit{{Path: fmt.Sprintf("ours/%d", i), File: []byte("o")}}, Title: "ours"}
			if _, err := w.Submit(t.Context(), job); err != nil {
				t.Errorf("Submit: %v", err)
			}
		})
	}
	wg.Wait()
	out, err := s.bare.Git(t.Context(), "", "ls-tree", "-r", "--name-only", "main")
	if err != nil || strings.Count(out, "ours/") != 20 || strings.Count(out, "theirs/") != theirs || !strings.Contains(out, "README.md") {
		t.Errorf("the branch holds %q, %v, want all files of both", out, err)
	}
	if err := s.bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
	if calls := s.Calls(); len(calls) != 0 {
		t.Errorf("writing called the API: %q", calls)
	}
}

// Names of references that lead elsewhere, a detached HEAD, a default branch of another name.
func TestH20GitLabTakesBranchesByTheirNames(t *testing.T) {
	t.Parallel()
	s := start(t, "", gitlab.Options{})
	if err := gittest.CheckBranchNames(t.Context(), s.host, s.repo, s.bare.Dir); err != nil {
		t.Error(err)
	}
}
