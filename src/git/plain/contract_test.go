package plain_test

import (
	"context"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// The contract holds over every transport.
func TestPlainKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh", "sshprogram", "file"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			host := newHost(t)
			bare, repo := serve(t, transport)
			if err := gittest.Check(t.Context(), host, repo, bare.Dir); err != nil {
				t.Error(err)
			}
		})
	}
}

const (
	userName = "emco"
	token    = "s3cr3t-t0ken"
)

// newHost returns a host, with at most one set of options, that is closed when the test ends.
func newHost(t testing.TB, options ...plain.Options) *plain.Host {
	t.Helper()
	o := plain.Options{}
	if len(options) > 0 {
		o = options[0]
	}
	o.AllowFile = true
	h := plain.New(o)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// server starts an HTTP server with one repository that has no commits.
func server(t testing.TB) (*gittest.Server, gittest.Bare, git.Repo) {
	t.Helper()
	srv, err := gittest.Serve(t.TempDir(), gittest.User{Name: userName, Token: token, Write: true}, gittest.User{Name: "reader", Token: "r34d"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	bare, err := srv.CreateRepo(t.Context(), "repo", "main")
	if err != nil {
		t.Fatal(err)
	}
	return srv, bare, git.Repo{URL: srv.URL("repo"), User: userName, Token: token}
}

// serve makes an empty repository and a way to it.
func serve(t *testing.T, transport string) (gittest.Bare, git.Repo) {
	t.Helper()
	if transport == "http" {
		_, bare, repo := server(t)
		return bare, repo
	}
	dir := t.TempDir()
	bare, err := gittest.Init(t.Context(), dir+"/repo.git", "main")
	if err != nil {
		t.Fatal(err)
	}
	if transport == "file" {
		return bare, git.Repo{URL: "file://" + bare.Dir}
	}
	srv, err := gittest.ServeSSH(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return bare, git.Repo{URL: srv.URL("repo"), SSHKey: git.Secret(srv.Key()), KnownHosts: srv.KnownHosts(), SSHProgram: transport == "sshprogram"}
}

// foreign commits as someone else and fails the test if that does not work.
func foreign(t *testing.T, ctx context.Context, b gittest.Bare, branch string, files map[string]gittest.File) git.Hash {
	t.Helper()
	commit, err := b.CommitExternal(ctx, branch, files)
	if err != nil {
		t.Fatal(err)
	}
	return git.Hash(commit)
}

// Names of references that lead elsewhere, a detached HEAD, a default branch of another name.
func TestH20BranchesAreTakenByTheirNames(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh", "file"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			bare, repo := serve(t, transport)
			host := newHost(t)
			if err := gittest.CheckBranchNames(t.Context(), host, repo, bare.Dir); err != nil {
				t.Error(err)
			}
		})
	}
}
