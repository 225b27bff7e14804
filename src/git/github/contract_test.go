package github_test

import (
	"context"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
)

const token = "ghp_s3cr3t-t0ken"

// serve starts a server with an empty repository.
func serve(t testing.TB, l githubtest.Limits) (*githubtest.Server, gittest.Bare, git.Repo) {
	t.Helper()
	srv, err := githubtest.Serve(t.TempDir(), githubtest.Options{Limits: l},
		githubtest.User{Name: "emco", Token: token, Write: true}, githubtest.User{Name: "reader", Token: "ghp_reader"},
		githubtest.User{Name: "stranger", Token: "ghp_stranger", Write: true, Repos: []string{"other/place"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	bare, err := srv.CreateRepo(t.Context(), "acme", "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	return srv, bare, srv.Repo("acme", "fleet", token)
}

// seeded starts a server with a repository that holds a README.
func seeded(t testing.TB) (*githubtest.Server, gittest.Bare, git.Repo) {
	t.Helper()
	srv, bare, repo := serve(t, githubtest.Limits{})
	foreign(t, t.Context(), bare, map[string]gittest.File{"README.md": {Content: "# fleet\n"}})
	return srv, bare, repo
}

// foreign commits on main as someone else.
func foreign(t testing.TB, ctx context.Context, b gittest.Bare, files map[string]gittest.File) git.Hash {
	t.Helper()
	commit, err := b.CommitExternal(ctx, "main", files)
	if err != nil {
		t.Fatal(err)
	}
	return git.Hash(commit)
}

// host makes a host and closes it in the end.
func host(t testing.TB, o github.Options) *github.Host {
	t.Helper()
	h := github.New(o)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// The contract holds in a repository that was empty, in one that was not, with requests
// that are cut as short as can be, and with hardly any memory.
func TestGitHubKeepsTheContract(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]github.Options{
		"as usual":           {},
		"requests cut short": {MaxItems: 1, MaxBytes: 1},
		"hardly any memory":  {MaxTrees: 1, MaxRepos: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, bare, repo := serve(t, githubtest.Limits{Listing: 7})
			if err := gittest.Check(t.Context(), host(t, o), repo, bare.Dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// Names of references that lead elsewhere, a detached HEAD, a default branch of another name.
func TestH20TheAPITakesBranchesByTheirNames(t *testing.T) {
	t.Parallel()
	_, bare, repo := serve(t, githubtest.Limits{})
	if err := gittest.CheckBranchNames(t.Context(), host(t, github.Options{}), repo, bare.Dir); err != nil {
		t.Error(err)
	}
}
