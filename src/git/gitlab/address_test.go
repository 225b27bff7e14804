package gitlab_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gitlab"
)

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// The host finds the API behind any path prefix of the instance. One request without a
// credential distinguishes the prefix from nested groups of the project.
func TestWhereTheAPIIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, prefix, api string
		calls             int // for the first question and the second
	}{
		{"at the root", "", "", 3},
		{"behind a prefix", "/gitlab", "", 3},
		{"behind two", "/tools/gitlab", "", 3},
		{"at the configured address", "", "", 2},
		{"at the configured address, behind a prefix", "/gitlab", "/api/v4/", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, c.prefix, gitlab.Options{})
			if strings.HasPrefix(c.name, "at the configured") {
				s.repo.API = strings.TrimSuffix(s.API(), "/api/v4") + c.api
			}
			s.foreign(t, "main", "README.md")
			s.foreign(t, "emco/f", "f")
			for range 2 {
				if _, err := s.host.Proposal(t.Context(), s.repo, "emco/f", "main"); !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), "no merge request") {
					t.Errorf("Proposal: %v, want NotFound since there is no merge request", err)
				}
			}
			if calls := s.Calls(); len(calls) != c.calls {
				t.Errorf("calls %q, want %d", calls, c.calls)
			}
		})
	}
}

// A server that is not GitLab receives no credential.
func TestOtherProgramsSeeNoCredential(t *testing.T) {
	t.Parallel()
	var asked, seen atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" || r.Header.Get("PRIVATE-TOKEN") != "" {
			seen.Add(1)
		}
		http.Error(w, "<html>not here</html>", http.StatusNotFound)
	}))
	t.Cleanup(srv.Close)
	host := gitlab.New(gitlab.Options{})
	t.Cleanup(func() { _ = host.Close() })
	_, err := host.Proposal(t.Context(), git.Repo{URL: srv.URL + "/a/b/c.git", Token: "s3cr3t"}, "f", "main")
	if !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), "no GitLab at") || asked.Load() != 2 || seen.Load() != 0 {
		t.Errorf("%v; asked %d times, %d with a credential; want NotFound, 2 and 0", err, asked.Load(), seen.Load())
	}
}

func TestAddressesThatCannotBe(t *testing.T) {
	t.Parallel()
	host := gitlab.New(gitlab.Options{})
	t.Cleanup(func() { _ = host.Close() })
	for _, r := range []git.Repo{
		{URL: "https://gitlab.example/project.git"},
		{URL: "file:///srv/group/project.git"},
		{URL: "https://u:p@gitlab.example/group/project.git"},
		{URL: "https://gitlab.example/group/project.git", API: "ext::sh -c x"},
		{URL: "https://gitlab.example/group/project.git", API: "ssh://gitlab.example"},
		{URL: "https://gitlab.example/group/project.git", API: "https://u:p@gitlab.example"},
	} {
		r.Token = "s3cr3t"
		if _, err := host.Proposal(t.Context(), r, "a", "b"); !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%+v: %v, want Invalid", r, err)
		}
	}
}

// If an address cannot be reached, the next one is not tried, and no other program is
// assumed there. Addresses of metadata services are not dialled.
func TestH17TheAPIIsNotDialledEverywhere(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	var asked atomic.Int32
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "<html>Whoops</html>", http.StatusBadGateway)
	}))
	t.Cleanup(ill.Close)
	host := gitlab.New(gitlab.Options{})
	t.Cleanup(func() { _ = host.Close() })
	for base, want := range map[string]errs.Kind{"http://169.254.169.254": errs.Forbidden, closed.URL: errs.Unavailable, ill.URL: errs.Unavailable} {
		for _, path := range []string{"/group/project.git", "/group/sub/project.git"} {
			_, err := host.Proposal(t.Context(), git.Repo{URL: base + path, Token: "t"}, "a", "b")
			if !errs.Is(err, want) || strings.Contains(err.Error(), "no GitLab") {
				t.Errorf("%s: %v of kind %v, want %v", base+path, err, errs.KindOf(err), want)
			}
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the server that is ill was asked %d times, want once for each", n)
	}
}
