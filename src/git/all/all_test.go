package all_test

import (
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/all"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
	"github.com/emco-orchestrator/emco/src/git/gittest/gitlabtest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// servers start a server with an empty repository: for providers whose own interface writes,
// one of their kind.
var servers = map[string]func(t *testing.T) (gittest.Bare, git.Repo, error){
	"git": func(t *testing.T) (gittest.Bare, git.Repo, error) {
		srv, err := gittest.Serve(t.TempDir(), gittest.User{Name: "emco", Token: "t", Write: true})
		if err != nil {
			return gittest.Bare{}, git.Repo{}, err
		}
		t.Cleanup(func() { _ = srv.Close() })
		bare, err := srv.CreateRepo(t.Context(), "r", "main")
		return bare, git.Repo{URL: srv.URL("r"), User: "emco", Token: "t"}, err
	},
	"github": func(t *testing.T) (gittest.Bare, git.Repo, error) {
		srv, err := githubtest.Serve(t.TempDir(), githubtest.Options{}, githubtest.User{Name: "emco", Token: "t", Write: true})
		if err != nil {
			return gittest.Bare{}, git.Repo{}, err
		}
		t.Cleanup(func() { _ = srv.Close() })
		bare, err := srv.CreateRepo(t.Context(), "acme", "r", "main")
		return bare, srv.Repo("acme", "r", "t"), err
	},
	"gitlab": func(t *testing.T) (gittest.Bare, git.Repo, error) {
		srv, err := gitlabtest.Serve(t.TempDir(), "")
		if err != nil {
			return gittest.Bare{}, git.Repo{}, err
		}
		t.Cleanup(func() { _ = srv.Close() })
		srv.AddToken(gitlabtest.Token{Value: "t", Scopes: []string{"api"}, Level: gitlabtest.Maintainer})
		bare, err := srv.CreateProject(t.Context(), "acme/r", "main")
		return bare, git.Repo{URL: srv.URL("acme/r"), Token: "t", Provider: "gitlab"}, err
	},
}

// packages are the hosts whose packages have other names than they.
var packages = map[string]string{"git": "plain"}

// Every host has its package check it against the contract; a new line in Hosts is tested by being there.
func TestHostsAreCheckedAgainstTheContract(t *testing.T) {
	t.Parallel()
	for name := range all.Hosts(all.Options{}) {
		test, err := os.ReadFile(filepath.Join("..", cmp.Or(packages[name], name), "contract_test.go"))
		if err != nil || !strings.Contains(string(test), "gittest.Check(") {
			t.Errorf("host %s: its package does not call gittest.Check in contract_test.go: %v", name, err)
		}
	}
}

// Each repository is written by the host of its provider, and by Git's protocol if no other one is.
func TestRepositoriesReachTheirHosts(t *testing.T) {
	t.Parallel()
	h := all.New(all.Options{})
	t.Cleanup(func() { _ = h.Close() })
	for name, own := range all.Hosts(all.Options{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serve, ok := servers[name]
			if !ok {
				t.Fatalf("no server to test host %s with", name)
			}
			bare, repo, err := serve(t)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.Of(repo); reflect.TypeOf(got) != reflect.TypeOf(own) {
				t.Errorf("the host is a %T, want a %T", got, own)
			}
			at, err := h.Commit(t.Context(), repo, "main", "", []git.Edit{{Path: "f", File: []byte("x")}}, git.Message{Title: "t"})
			if err != nil {
				t.Fatal(err)
			}
			if head, err := bare.Ref("refs/heads/main"); err != nil || head != string(at) {
				t.Errorf("the branch is at %s, %v, want %s", head, err, at)
			}
		})
	}
	if _, ok := h.Of(git.Repo{Provider: "gitea"}).(*plain.Host); !ok {
		t.Error("a provider without a host of its own is not written by Git's protocol")
	}
}
