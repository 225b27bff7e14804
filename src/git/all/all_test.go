package all_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/all"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
	"github.com/emco-orchestrator/emco/src/git/gittest/gitlabtest"
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
		srv.AddToken(gitlabtest.Token{Value: "t", Scopes: []string{"api"}, Level: gitlabtest.Developer})
		bare, err := srv.CreateProject(t.Context(), "acme/r", "main")
		return bare, git.Repo{URL: srv.URL("acme/r"), Token: "t", Provider: "gitlab"}, err
	},
}

// Every host keeps the contract; a new line in Hosts is tested by being there.
func TestHostsKeepTheContract(t *testing.T) {
	t.Parallel()
	hosts := all.Hosts(all.Options{})
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serve, ok := servers[name]
			if !ok {
				serve = servers["git"] // the contract is kept by Git's own protocol
			}
			bare, repo, err := serve(t)
			if err != nil {
				t.Fatal(err)
			}
			if err := gittest.Check(t.Context(), hosts[name], repo, bare.Dir); err != nil {
				t.Error(err)
			}
		})
	}
}
