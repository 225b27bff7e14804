package githubtest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
)

// The server refuses what GitHub refuses, so that a host which relies on it is found out.
func TestItRefusesWhatGitHubRefuses(t *testing.T) {
	t.Parallel()
	srv, err := githubtest.Serve(t.TempDir(), githubtest.Options{Limits: githubtest.Limits{Items: 2, Body: 1000}}, githubtest.User{Name: "u", Token: "tok", Write: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	bare, err := srv.Seed(t.Context(), "acme", "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	head, err := bare.Git(t.Context(), "", "rev-parse", "main")
	if err != nil {
		t.Fatal(err)
	}
	none := strings.Repeat("1", 40)
	for _, c := range []struct {
		name, token, call, body string
		status                  int
	}{
		{"no token", "", "GET git/ref/heads/main", "", 401},
		{"a branch that is not there", "tok", "GET git/ref/heads/none", "", 404},
		{"no entries", "tok", "POST git/trees", `{"tree":[]}`, 422},
		{"too many entries", "tok", "POST git/trees", `{"tree":[{},{},{}]}`, 422},
		{"a large request", "tok", "POST git/trees", `{"tree":[{"content":"` + strings.Repeat("x", 1000) + `"}]}`, 413},
		{"an unknown base", "tok", "POST git/trees", `{"base_tree":"` + none + `","tree":[{"path":"a","mode":"100644","content":"a"}]}`, 422},
		{"an unknown object", "tok", "POST git/trees", `{"tree":[{"path":"a","mode":"100644","sha":"` + none + `"}]}`, 422},
		{"a mode that is none", "tok", "POST git/trees", `{"tree":[{"path":"a","mode":"100600","content":"a"}]}`, 422},
		{"a path that climbs", "tok", "POST git/trees", `{"tree":[{"path":"../a","mode":"100644","content":"a"}]}`, 422},
		{"a path of Git's", "tok", "POST git/trees", `{"tree":[{"path":"a/.git","mode":"100644","content":"a"}]}`, 422},
		{"taking away what is not there", "tok", "POST git/trees", `{"tree":[{"path":"a","mode":"100644","sha":null}]}`, 422},
		{"a commit of no tree", "tok", "POST git/commits", `{"message":"m","tree":"` + none + `"}`, 422},
		{"a branch to nowhere", "tok", "POST git/refs", `{"ref":"refs/heads/x","sha":"` + none + `"}`, 422},
		{"a branch that exists", "tok", "POST git/refs", `{"ref":"refs/heads/main","sha":"` + head + `"}`, 422},
		{"a move of no branch", "tok", "PATCH git/refs/heads/x", `{"sha":"` + head + `"}`, 422},
		{"a move by force", "tok", "PATCH git/refs/heads/main", `{"sha":"` + head + `","force":true}`, 422},
		{"no JSON", "tok", "POST git/trees", `{`, 400},
		{"what is fine", "tok", "POST git/trees", `{"tree":[{"path":"a","mode":"100644","content":"a"}]}`, 201},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL()+"/api/v3/repos/acme/fleet/"+path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", c.name, resp.StatusCode, c.status)
		}
	}
}
