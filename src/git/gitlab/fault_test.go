package gitlab_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gitlab"
	"github.com/emco-orchestrator/emco/src/git/gittest/gitlabtest"
)

// A token that ends during use is recognized by Git and by the API. Nothing is retried, and
// other tokens still work.
func TestH51TokensEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(stage){
		"expired": func(s stage) { s.Expire(developer) }, "revoked": func(s stage) { s.Revoke(developer) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := seeded(t)
			head := s.branchOff(t, "emco/f", "f")
			r := s.as(developer)
			if _, err := s.put(t.Context(), r, "emco/f", "g"); err != nil {
				t.Fatal(err)
			}
			end(s)
			calls, requests := len(s.Calls()), s.Requests()
			_, err := s.host.Commit(t.Context(), r, "emco/f", head, []git.Edit{{Path: "h", File: []byte("h")}}, git.Message{Title: "t"})
			_, asked := s.host.Propose(t.Context(), r, "emco/f", "main", change)
			for what, err := range map[string]error{"Commit": err, "Propose": asked} {
				if !errs.Is(err, errs.Unauthorized) || !strings.Contains(err.Error(), name) && what == "Propose" {
					t.Errorf("%s: %v of kind %v, want Unauthorized since it is %s", what, err, errs.KindOf(err), name)
				}
				if err != nil && strings.Contains(err.Error(), developer) {
					t.Errorf("%s reveals the token: %v", what, err)
				}
			}
			if calls, requests := len(s.Calls())-calls, s.Requests()-requests; calls != 1 || requests != 1 {
				t.Errorf("%d calls and %d requests of Git, want one each", calls, requests)
			}
			if _, err := s.put(t.Context(), s.repo, "emco/f", "i"); err != nil {
				t.Errorf("another token: %v", err)
			}
		})
	}
}

// Tokens of groups and projects work as those of users do, within what they are for, and
// what their scopes allow.
func TestTokensOfGroupsAndProjects(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	s.branchOff(t, "emco/f", "f")
	for _, c := range []struct {
		token         gitlabtest.Token
		user          string
		git, proposes errs.Kind // Internal: it works
	}{
		{gitlabtest.Token{Value: "project", Under: project, Scopes: []string{"api"}}, "project_1_bot", errs.Internal, errs.Internal},
		{gitlabtest.Token{Value: "group", Under: "fleets", Scopes: []string{"api", "write_repository"}}, "oauth2", errs.Internal, errs.Internal},
		{gitlabtest.Token{Value: "no name", Under: "fleets/north", Scopes: []string{"api"}}, "", errs.Internal, errs.Internal},
		{gitlabtest.Token{Value: "elsewhere", Under: "fleets/south", Scopes: []string{"api"}}, "x", errs.NotFound, errs.NotFound},
		{gitlabtest.Token{Value: "git only", Scopes: []string{"write_repository"}}, "x", errs.Internal, errs.Forbidden},
		{gitlabtest.Token{Value: "reads", Scopes: []string{"read_api", "read_repository"}}, "x", errs.Forbidden, errs.Internal},
		{gitlabtest.Token{Value: "api only reads", Scopes: []string{"read_api"}}, "x", errs.NotFound, errs.Internal},
	} {
		c.token.Level = gitlabtest.Developer
		s.AddToken(c.token)
		r := s.as(git.Secret(c.token.Value))
		r.User = c.user
		if _, err := s.put(t.Context(), r, "emco/f", c.token.Value); errs.KindOf(err) != c.git || (err == nil) != (c.git == errs.Internal) {
			t.Errorf("%s: Commit: %v, want kind %v", c.token.Value, err, c.git)
		}
		if _, err := s.host.Propose(t.Context(), r, "emco/f", "main", git.Message{Title: "same"}); errs.KindOf(err) != c.proposes || (err == nil) != (c.proposes == errs.Internal) {
			t.Errorf("%s: Propose: %v, want kind %v", c.token.Value, err, c.proposes)
		}
	}
	_, err := s.host.Propose(t.Context(), s.as("git only"), "emco/f", "main", change)
	if err == nil || !strings.Contains(err.Error(), "insufficient_scope") {
		t.Errorf("a scope that is missing: %v, want GitLab's word for it", err)
	}
}

// accounts is a budget that records what it observes.
type accounts struct {
	mu    sync.Mutex
	spent []git.Cost
	told  []git.RateStatus
}

func (a *accounts) Spend(_ context.Context, _ git.Repo, c git.Cost) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent = append(a.spent, c)
	return nil
}

func (a *accounts) Observe(_ git.Repo, s git.RateStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, s)
}

const html = "text/html; charset=utf-8"

// What GitLab answers when it is asked too much, is ill, or is not there, by kind and with
// the time to come back; each is one call.
func TestH52RefusalsOfTheAPI(t *testing.T) {
	t.Parallel()
	far := time.Now().Add(20 * time.Minute)
	for _, c := range []struct {
		name  string
		fault gitlabtest.Fault
		kind  errs.Kind
		after time.Duration
	}{
		{"429 with Retry-After", gitlabtest.Fault{Status: 429, Header: map[string]string{"Retry-After": "7"}, Body: "Retry later"}, errs.Throttled, 7 * time.Second},
		{"429 without Retry-After", gitlabtest.Fault{Status: 429, Body: "Retry later"}, errs.Throttled, time.Minute},
		{"403 with Retry-After", gitlabtest.Fault{Status: 403, Header: map[string]string{"Retry-After": "90"}}, errs.Throttled, 90 * time.Second},
		{"403", gitlabtest.Fault{Status: 403, Body: `{"message":"403 Forbidden"}`}, errs.Forbidden, 0},
		{"401", gitlabtest.Fault{Status: 401, Body: `{"message":"401 Unauthorized"}`}, errs.Unauthorized, 0},
		{"422", gitlabtest.Fault{Status: 422, Body: `{"message":{"base":["odd"]}}`}, errs.Invalid, 0},
		{"400", gitlabtest.Fault{Status: 400, Body: `{"error":"title is missing"}`}, errs.Invalid, 0},
		{"413", gitlabtest.Fault{Status: 413}, errs.TooLarge, 0},
		{"500", gitlabtest.Fault{Status: 500, Body: `{"message":"500 Internal Server Error"}`}, errs.Unavailable, 0},
		{"502 of a proxy", gitlabtest.Fault{Status: 502, Header: map[string]string{"Content-Type": html}, Body: "<html>Whoops</html>"}, errs.Unavailable, 0},
		{"503 with Retry-After", gitlabtest.Fault{Status: 503, Header: map[string]string{"Retry-After": "30"}}, errs.Unavailable, 30 * time.Second},
		{"a login page", gitlabtest.Fault{Status: 200, Header: map[string]string{"Content-Type": html}, Body: "<html>Sign in</html>"}, errs.Unavailable, 0},
		{"JSON that is cut", gitlabtest.Fault{Status: 200, Header: map[string]string{"Content-Type": "application/json"}, Body: `[{"iid":`}, errs.Unavailable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			budget := &accounts{}
			s := start(t, "", gitlab.Options{Budget: budget})
			s.repo.API = s.API()
			s.Fail(c.fault)
			_, err := s.host.Proposal(t.Context(), s.repo, "a", "b")
			if !errs.Is(err, c.kind) || errs.RetryAfter(err) != c.after {
				t.Errorf("%v of kind %v, come back after %v; want kind %v, after %v", err, errs.KindOf(err), errs.RetryAfter(err), c.kind, c.after)
			}
			if err != nil && (strings.Contains(err.Error(), "<html") || strings.Contains(err.Error(), maintainer) || !strings.Contains(err.Error(), s.repo.URL)) {
				t.Errorf("the text is %q", err)
			}
			if len(s.Calls()) != 1 || len(budget.spent) != 1 || budget.spent[0].Calls != 1 {
				t.Errorf("%d calls, spent %+v; want one of each", len(s.Calls()), budget.spent)
			}
			if told := len(budget.told) == 1; told != (c.after > 0) || told && time.Until(budget.told[0].Until) > c.after {
				t.Errorf("the budget observed %+v, want a wait of %v", budget.told, c.after)
			}
		})
	}
	t.Run("the reset alone", func(t *testing.T) {
		t.Parallel()
		s := start(t, "", gitlab.Options{})
		s.repo.API = s.API()
		s.Fail(gitlabtest.Fault{Status: 429, Header: map[string]string{"RateLimit-Reset": unix(far)}})
		_, err := s.host.Proposal(t.Context(), s.repo, "a", "b")
		if after := errs.RetryAfter(err); !errs.Is(err, errs.Throttled) || after < 15*time.Minute || after > 20*time.Minute {
			t.Errorf("%v, after %v, want Throttled until the reset", err, after)
		}
	})
}

// The budget learns how many calls remain before they are used up.
func TestH52LimitsAreToldToTheBudget(t *testing.T) {
	t.Parallel()
	budget := &accounts{}
	s := start(t, "", gitlab.Options{Budget: budget})
	s.repo.API = s.API()
	s.Limit(2, time.Hour)
	for i, want := range []errs.Kind{errs.NotFound, errs.NotFound, errs.Throttled} {
		if _, err := s.host.Proposal(t.Context(), s.repo, "a", "b"); !errs.Is(err, want) {
			t.Errorf("call %d: %v, want kind %v", i, err, want)
		}
	}
	if _, err := s.host.Proposal(t.Context(), s.as(developer), "a", "b"); !errs.Is(err, errs.NotFound) {
		t.Errorf("another token: %v, want NotFound", err)
	}
	for i, left := range []int{1, 0, 0, 1} {
		got := budget.told[i]
		if got.Limit != 2 || got.Remaining != left || time.Until(got.Reset) < 59*time.Minute || got.Until.IsZero() != (i != 2) {
			t.Errorf("after call %d the budget knows %+v, want %d of 2 left", i, got, left)
		}
	}
}

// A budget that refuses saves the call.
func TestABudgetThatRefusesSavesTheCall(t *testing.T) {
	t.Parallel()
	s := start(t, "", gitlab.Options{Budget: broke{}})
	s.repo.API = s.API()
	if _, err := s.host.Proposal(t.Context(), s.repo, "a", "b"); !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) != time.Minute || len(s.Calls()) != 0 {
		t.Errorf("%v, with %d calls; want Throttled without one", err, len(s.Calls()))
	}
}

type broke struct{ git.Unlimited }

func (broke) Spend(context.Context, git.Repo, git.Cost) error {
	return errs.Throttle("", "", time.Minute, errors.New("nothing left"))
}

// A redirect to another host is not followed, and no credential goes there.
func TestH18RedirectsOfTheAPI(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(evil.Close)
	s := seeded(t)
	s.branchOff(t, "emco/f", "f")
	s.Redirect(evil.URL)
	_, reads := s.host.Proposal(t.Context(), s.repo, "emco/f", "main")
	err := s.host.SetStatus(t.Context(), s.repo, git.Hash(strings.Repeat("1", 40)), git.CommitStatus{Name: "n", State: git.StatusSuccess})
	if !errs.Is(reads, errs.Forbidden) || !errs.Is(err, errs.Forbidden) || asked.Load() != 0 {
		t.Errorf("reading: %v, writing: %v, the other host was asked %d times; want Forbidden and 0", reads, err, asked.Load())
	}
}

// Certificates of one's own are trusted where they are given.
func TestCertificatesOfOnesOwn(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("[]"))
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs clients that do not trust it
	srv.StartTLS()
	t.Cleanup(srv.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	host := gitlab.New(gitlab.Options{})
	t.Cleanup(func() { _ = host.Close() })
	for ca, want := range map[string]errs.Kind{ca: errs.NotFound, "": errs.Unavailable, "odd": errs.Invalid} {
		r := git.Repo{URL: srv.URL + "/group/project.git", Token: "t", CA: ca}
		if _, err := host.Proposal(t.Context(), r, "a", "b"); !errs.Is(err, want) {
			t.Errorf("with the CA %.10q: %v of kind %v, want %v", ca, err, errs.KindOf(err), want)
		}
	}
}
