package github_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
)

var edit = []git.Edit{{Path: "f", File: []byte("x")}}

// wantErr checks the kind, and that no credential is in the text.
func wantErr(t *testing.T, call string, err error, kind errs.Kind) {
	t.Helper()
	if !errs.Is(err, kind) {
		t.Errorf("%s: got %v of kind %v, want kind %v", call, err, errs.KindOf(err), kind)
	}
	if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, token) || strings.Contains(text, "ghs_installation") {
		t.Errorf("%s: the error holds a token: %s", call, text)
	}
}

// once lets one call end otherwise.
func once(method, path string, f githubtest.Fault) func(*http.Request) *githubtest.Fault {
	var done atomic.Bool
	return func(r *http.Request) *githubtest.Fault {
		if r.Method == method && strings.Contains(r.URL.Path, path) && done.CompareAndSwap(false, true) {
			return &f
		}
		return nil
	}
}

// always lets all calls end otherwise.
func always(f githubtest.Fault) func(*http.Request) *githubtest.Fault {
	return func(*http.Request) *githubtest.Fault { return &f }
}

func head(t *testing.T, b gittest.Bare) git.Hash {
	t.Helper()
	return git.Hash(must(b.Tip("main")))
}

// Every answer of GitHub, or of a proxy in front of it, gets a kind and a time to retry.
func TestH52AnswersBecomeKinds(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	html := map[string]string{"Content-Type": "text/html"}
	reset := fmt.Sprint(time.Now().Add(10 * time.Minute).Unix())
	spent := map[string]string{"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
	secondary := `{"message":"You have exceeded a secondary rate limit.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
	for _, c := range []struct {
		name     string
		fault    githubtest.Fault
		kind     errs.Kind
		min, max time.Duration
	}{
		{"bad credentials", githubtest.Fault{Status: 401, Body: `{"message":"Bad credentials"}`}, errs.Unauthorized, 0, 0},
		{"a permission that lacks", githubtest.Fault{Status: 403, Body: `{"message":"Resource not accessible by integration ` + token + `"}`}, errs.Forbidden, 0, 0},
		{"an archived repository", githubtest.Fault{Status: 403, Body: `{"message":"Repository was archived so is read-only."}`}, errs.Forbidden, 0, 0},
		{"a primary limit", githubtest.Fault{Status: 403, Header: spent, Body: `{"message":"API rate limit exceeded"}`}, errs.Throttled, time.Minute, 11 * time.Minute},
		{"a primary limit as 429", githubtest.Fault{Status: 429, Header: spent, Body: `{}`}, errs.Throttled, time.Minute, 11 * time.Minute},
		{"a secondary limit with a time", githubtest.Fault{Status: 403, Header: map[string]string{"Retry-After": "7", "X-RateLimit-Reset": reset}, Body: secondary}, errs.Throttled, 7 * time.Second, 7 * time.Second},
		{"a secondary limit without one", githubtest.Fault{Status: 403, Header: map[string]string{"X-RateLimit-Reset": reset}, Body: secondary}, errs.Throttled, time.Minute, time.Minute},
		{"429 with a time", githubtest.Fault{Status: 429, Header: map[string]string{"Retry-After": "9"}, Body: `{}`}, errs.Throttled, 9 * time.Second, 9 * time.Second},
		{"429 without a time", githubtest.Fault{Status: 429}, errs.Throttled, time.Minute, time.Minute},
		{"no repository", githubtest.Fault{Status: 404, Body: `{"message":"Not Found"}`}, errs.NotFound, 0, 0},
		{"a proxy's page with 404", githubtest.Fault{Status: 404, Header: html, Body: "<html>"}, errs.Unavailable, 0, 0},
		{"a conflict", githubtest.Fault{Status: 409, Body: `{"message":"Conflict"}`}, errs.Conflict, 0, 0},
		{"what is invalid", githubtest.Fault{Status: 422, Body: `{"message":"Validation Failed","errors":[{"resource":"Tree","field":"path","code":"invalid"}]}`}, errs.Invalid, 0, 0},
		{"what is too large", githubtest.Fault{Status: 413, Body: `{}`}, errs.TooLarge, 0, 0},
		{"a login page", githubtest.Fault{Status: 200, Header: html, Body: "<html>log in</html>"}, errs.Unavailable, 0, 0},
		{"half an answer", githubtest.Fault{Status: 200, Body: `{"ref":`}, errs.Unavailable, 0, 0},
		{"an empty answer", githubtest.Fault{Status: 200, Body: ``}, errs.Invalid, 0, 0},
		{"a broken server", githubtest.Fault{Status: 500, Header: html, Body: "<html>"}, errs.Unavailable, 0, 0},
		{"a gateway", githubtest.Fault{Status: 502, Header: html, Body: "<html>"}, errs.Unavailable, 0, 0},
		{"an overloaded server", githubtest.Fault{Status: 503, Header: map[string]string{"Retry-After": "8"}, Body: `{}`}, errs.Unavailable, 8 * time.Second, 8 * time.Second},
		{"a broken connection", githubtest.Fault{Drop: true}, errs.Unavailable, 0, 0},
	} {
		h := host(t, github.Options{})
		at := head(t, bare)
		srv.Faults(always(c.fault))
		_, err := h.Head(t.Context(), repo, "main")
		wantErr(t, c.name+": Head", err, c.kind)
		if got := errs.RetryAfter(err); got < c.min || got > c.max {
			t.Errorf("%s: RetryAfter = %v, want %v to %v", c.name, got, c.min, c.max)
		}
		e := []git.Edit{{Path: c.name, File: []byte("x")}}
		if _, err = h.Commit(t.Context(), repo, "main", at, e, git.Message{}); err == nil {
			t.Errorf("%s: Commit succeeds", c.name)
		}
		srv.Faults(nil)
		if _, err := h.Commit(t.Context(), repo, "main", at, e, git.Message{}); err != nil {
			t.Errorf("%s: Commit after the fault: %v", c.name, err)
		}
	}
}

// Each secondary limit that names no time doubles the wait, until a call goes well.
func TestH52WaitsGrow(t *testing.T) {
	t.Parallel()
	srv, _, repo := seeded(t)
	h := host(t, github.Options{})
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute, 0, time.Minute} {
		srv.Faults(always(githubtest.Fault{Status: 403, Body: `{"message":"You have exceeded a secondary rate limit."}`}))
		if want == 0 {
			srv.Faults(nil)
		}
		_, err := h.Head(t.Context(), repo, "main")
		if got := errs.RetryAfter(err); got != want {
			t.Errorf("RetryAfter = %v, want %v", got, want)
		}
	}
}

// learned is a budget that records all costs and rates.
type learned struct {
	mu    sync.Mutex
	last  git.RateStatus
	spent git.Cost
	says  error
}

func (l *learned) Spend(_ context.Context, _ git.Repo, c git.Cost) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spent = git.Cost{Calls: l.spent.Calls + c.Calls, Points: l.spent.Points + c.Points, Content: l.spent.Content + c.Content, Pushes: l.spent.Pushes + c.Pushes}
	return l.says
}

func (l *learned) Observe(_ git.Repo, s git.RateStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = s
}

func (l *learned) take() (git.RateStatus, git.Cost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	spent := l.spent
	l.spent = git.Cost{}
	return l.last, spent
}

// The budget is spent before each call, and observes the answer.
func TestH52TheBudgetKnows(t *testing.T) {
	t.Parallel()
	srv, bare, repo := serve(t, githubtest.Limits{Calls: 100})
	at := foreign(t, t.Context(), bare, map[string]gittest.File{"README.md": {Content: "x"}})
	b := &learned{}
	h := host(t, github.Options{Budget: b})
	at, err := h.Commit(t.Context(), repo, "main", at, rollout(100, "1"), git.Message{})
	if err != nil {
		t.Fatal(err)
	}
	told, spent := b.take()
	if told.Limit != 100 || told.Remaining != 93 || told.Reset.IsZero() || !told.Until.IsZero() {
		t.Errorf("the budget observed %+v after 7 calls", told)
	}
	if want := (git.Cost{Calls: 7, Points: 23, Content: 4}); spent != want {
		t.Errorf("spent %+v, want %+v", spent, want)
	}
	srv.Faults(always(githubtest.Fault{Status: 403, Header: map[string]string{"Retry-After": "30"}, Body: `{"message":"wait"}`}))
	_, err = h.Head(t.Context(), repo, "main")
	wantErr(t, "Head", err, errs.Throttled)
	if told, _ := b.take(); time.Until(told.Until) < 25*time.Second || time.Until(told.Until) > 30*time.Second {
		t.Errorf("the budget may ask again in %v, want 30 s", time.Until(told.Until))
	}
	b.says = errs.Throttle("spend", "", time.Hour, fmt.Errorf("nothing left"))
	srv.Calls()
	_, err = h.Commit(t.Context(), repo, "main", at, edit, git.Message{})
	wantErr(t, "Commit without a budget", err, errs.Throttled)
	if n := githubtest.Total(srv.Calls()); n != 0 || errs.RetryAfter(err) != time.Hour {
		t.Errorf("%d calls were made without a budget, RetryAfter %v", n, errs.RetryAfter(err))
	}
}

// The limits belong to a token: other tokens still work.
func TestH52OtherCredentialsKeepWorking(t *testing.T) {
	t.Parallel()
	srv, bare, repo := serve(t, githubtest.Limits{Calls: 3})
	foreign(t, t.Context(), bare, map[string]gittest.File{"README.md": {Content: "x"}})
	h := host(t, github.Options{})
	for i := range 4 {
		_, err := h.Head(t.Context(), repo, "main")
		if i < 3 && err != nil {
			t.Fatal(err)
		} else if i == 3 {
			wantErr(t, "Head above the limit", err, errs.Throttled)
		}
	}
	if _, err := h.Head(t.Context(), srv.Repo("acme", "fleet", "ghp_reader"), "main"); err != nil {
		t.Errorf("Head by another token: %v", err)
	}
}

func TestH51TokensEnd(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	reader := srv.Repo("acme", "fleet", "ghp_reader")
	_, err := h.Commit(t.Context(), reader, "main", head(t, bare), edit, git.Message{})
	wantErr(t, "Commit by a reader", err, errs.Forbidden)
	_, err = h.Head(t.Context(), srv.Repo("acme", "fleet", "ghp_stranger"), "main")
	wantErr(t, "Head by a stranger", err, errs.NotFound)
	srv.Revoke(token)
	srv.Calls()
	_, err = h.Commit(t.Context(), repo, "main", head(t, bare), edit, git.Message{})
	wantErr(t, "Commit with a revoked token", err, errs.Unauthorized)
	if n := githubtest.Total(srv.Calls()); n != 1 {
		t.Errorf("%d calls were made with a revoked token, want 1", n)
	}
	if _, err := h.Head(t.Context(), reader, "main"); err != nil {
		t.Errorf("Head by another token: %v", err)
	}
}

// An app's token is renewed before it ends, once for all who need it, and once after it
// was refused.
func TestH51AppsRenewTheirTokens(t *testing.T) {
	t.Parallel()
	srv, bare, _ := seeded(t)
	app, err := srv.AddApp("17", 42, time.Hour, githubtest.User{Name: "emco[bot]", Write: true})
	if err != nil {
		t.Fatal(err)
	}
	repo := srv.Repo("acme", "fleet", "")
	repo.App = app
	h := host(t, github.Options{})
	many := func() {
		t.Helper()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := h.Head(t.Context(), repo, "main"); err != nil {
					t.Errorf("Head as an app: %v", err)
				}
			})
		}
		wg.Wait()
	}
	many()
	if n := srv.Tokens(); n != 1 {
		t.Errorf("%d tokens were made for eight callers, want 1", n)
	}
	srv.RevokeTokens()
	many()
	if n := srv.Tokens(); n != 2 {
		t.Errorf("%d tokens were made after they were revoked, want 2", n)
	}
	if _, err := h.Commit(t.Context(), repo, "main", head(t, bare), edit, git.Message{}); err != nil {
		t.Errorf("Commit as an app: %v", err)
	}
	srv.Faults(func(r *http.Request) *githubtest.Fault {
		if strings.Contains(r.URL.Path, "access_tokens") {
			return nil
		}
		return &githubtest.Fault{Status: 401, Body: `{"message":"Bad credentials"}`}
	})
	srv.Calls()
	_, err = h.Head(t.Context(), repo, "main")
	wantErr(t, "Head of an app that is refused", err, errs.Unauthorized)
	if n := githubtest.Total(srv.Calls()); n != 3 {
		t.Errorf("%d calls were made, want a try, a token, a try", n)
	}
}

func TestH51AppsThatAreWrong(t *testing.T) {
	t.Parallel()
	srv, _, _ := seeded(t)
	app, err := srv.AddApp("17", 42, time.Hour, githubtest.User{Name: "emco[bot]", Write: true})
	other, err2 := srv.AddApp("18", 43, time.Hour, githubtest.User{Name: "other[bot]"})
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	h := host(t, github.Options{})
	for _, c := range []struct {
		name string
		app  git.App
		kind errs.Kind
	}{
		{"the key of another app", git.App{ID: "17", Installation: 42, Key: other.Key}, errs.Unauthorized},
		{"another installation", git.App{ID: "17", Installation: 43, Key: app.Key}, errs.Unauthorized},
		{"no such app", git.App{ID: "19", Installation: 42, Key: app.Key}, errs.Unauthorized},
		{"no key", git.App{ID: "17", Installation: 42}, errs.Invalid},
		{"garbage as a key", git.App{ID: "17", Installation: 42, Key: "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"}, errs.Invalid},
	} {
		repo := srv.Repo("acme", "fleet", "")
		repo.App = c.app
		_, err := h.Head(t.Context(), repo, "main")
		wantErr(t, c.name, err, c.kind)
		if err != nil && strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: the error shows the key", c.name)
		}
	}
}

// Within a few minutes of its end, a token is replaced before a call fails.
func TestH51AppTokensAreRenewedInTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv, err := githubtest.Serve(dir, githubtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	if _, err := srv.Seed(t.Context(), "acme", "fleet", "main"); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		app, err := srv.AddApp("17", 42, time.Hour, githubtest.User{Name: "emco[bot]", Write: true})
		if err != nil {
			t.Fatal(err)
		}
		repo := srv.Repo("acme", "fleet", "")
		repo.App = app
		h := github.Through(srv.Transport(), github.Options{})
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{0, 1}, {54 * time.Minute, 1}, {2 * time.Minute, 2}, {3 * time.Hour, 3}} {
			time.Sleep(c.after) // of the bubble
			srv.Calls()
			if _, err := h.Head(t.Context(), repo, "nothing"); !errs.Is(err, errs.NotFound) {
				t.Fatal(err)
			}
			if n := srv.Tokens(); n != c.want || srv.Calls()["GET git/ref/{ref...}"] != 1 {
				t.Errorf("after %v: %d tokens were made, want %d, and no call refused", c.after, n, c.want)
			}
		}
	})
}

// The answer is lost after the branch was moved: the writer finds its commit.
func TestH53LostAnswers(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"POST /git/trees", "POST /git/commits", "PATCH /git/refs", "GET /git/ref/"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			srv, bare, repo := seeded(t)
			method, path, _ := strings.Cut(at, " ")
			h := host(t, github.Options{})
			srv.Faults(once(method, path, githubtest.Fault{After: true, Drop: true}))
			w := batch.New(h, batch.Options{Window: time.Millisecond})
			defer w.Close()
			id, err := w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Edits: edit, Title: "once"})
			if err != nil {
				t.Fatal(err)
			}
			if n := must(bare.Git(t.Context(), "", "rev-list", "--count", "--grep=once", "main")); n != "1" || id != head(t, bare) {
				t.Errorf("%s commits were made, and the branch is at %s; want 1, and %s", n, head(t, bare), id)
			}
		})
	}
}

// What rules of a branch refuse is Forbidden, with GitHub's words; so that a change can be
// proposed.
func TestH54RulesOfBranches(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	for _, rule := range []githubtest.Rule{
		{Status: 422, Message: "Changes must be made through a pull request."},
		{Status: 422, Message: "Repository rule violations found\n\nCommits must have verified signatures."},
		{Status: 422, Message: "Required status check \"ci\" is expected."},
		{Status: 403, Message: "You're not authorized to push to this branch."},
	} {
		h := host(t, github.Options{})
		if err := srv.Protect("acme", "fleet", "main", rule); err != nil {
			t.Fatal(err)
		}
		at := head(t, bare)
		_, err := h.Commit(t.Context(), repo, "main", at, edit, git.Message{})
		wantErr(t, "Commit", err, errs.Forbidden)
		if words := strings.Join(strings.Fields(rule.Message), " "); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("Commit: %v, want GitHub's words: %s", err, words)
		}
		if head(t, bare) != at {
			t.Error("the branch was moved")
		}
	}
}

// A request that the server finds invalid blames the path that it names.
func TestH54ARefusalBlamesItsPath(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	w := batch.New(h, batch.Options{Window: time.Millisecond})
	defer w.Close()
	srv.Faults(func(r *http.Request) *githubtest.Fault {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if err == nil && strings.Contains(string(body), "clusters/bad") {
			return &githubtest.Fault{Status: 422, Body: `{"message":"tree.path clusters/bad/f is not allowed here"}`}
		}
		return nil
	})
	var wg sync.WaitGroup
	for _, name := range []string{"a", "bad", "c", "d"} {
		wg.Go(func() {
			e := []git.Edit{{Path: "clusters/" + name + "/f", File: []byte("x")}}
			_, err := w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Edits: e, Title: "t"})
			if (name == "bad") != errs.Is(err, errs.Invalid) {
				t.Errorf("job %s: %v", name, err)
			}
		})
	}
	wg.Wait()
	if files := must(bare.Git(t.Context(), "", "ls-tree", "-r", "--name-only", "main")); strings.Count(files, "clusters/") != 3 {
		t.Errorf("the branch holds %q", files)
	}
}

// Objects that we took to be on the server may have gone: the next try finds its way.
func TestH55MissingObjects(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	srv.Faults(once(http.MethodPost, "/git/trees", githubtest.Fault{Status: 422, Body: `{"message":"GitRPC::BadObjectState"}`}))
	w := batch.New(h, batch.Options{Window: time.Millisecond})
	defer w.Close()
	id, err := w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Edits: edit, Title: "t"})
	if err != nil || id != head(t, bare) {
		t.Errorf("Submit = %s, %v, the branch is at %s", id, err, head(t, bare))
	}
}

// A repository without commits gets its first one, whatever the branch.
func TestH55EmptyRepositories(t *testing.T) {
	t.Parallel()
	for _, branch := range []string{"main", "work"} {
		_, bare, repo := serve(t, githubtest.Limits{})
		h := host(t, github.Options{})
		for _, err := range h.Tree(t.Context(), repo, git.Hash(strings.Repeat("1", 40)), "") {
			wantErr(t, "Tree", err, errs.NotFound)
		}
		asked := 0
		m := git.Message{Title: "first", Guard: func(context.Context) error { asked++; return nil }}
		id, err := h.Commit(t.Context(), repo, branch, "", rollout(3, "1"), m)
		if err != nil || asked == 0 {
			t.Fatalf("Commit to %s: %v; the guard was asked %d times", branch, err, asked)
		}
		files := must(bare.Git(t.Context(), "", "ls-tree", "-r", "--name-only", branch))
		if got := must(bare.Git(t.Context(), "", "rev-parse", branch)); got != string(id) || strings.Contains(files, "README") || strings.Count(files, "\n") != 3*21-1 {
			t.Errorf("branch %s is at %s, want %s, and holds %q", branch, got, id, files)
		}
	}
}

// A client sends objects to a repository whose default branch is missing.
func TestH55NoDefaultBranch(t *testing.T) {
	t.Parallel()
	_, bare, repo := serve(t, githubtest.Limits{})
	if _, err := bare.CommitExternal(t.Context(), "other", map[string]gittest.File{"f": {Content: "f"}}); err != nil {
		t.Fatal(err)
	}
	h := host(t, github.Options{})
	_, err := h.Head(t.Context(), repo, "main")
	wantErr(t, "Head", err, errs.NotFound)
	if id, err := h.Commit(t.Context(), repo, "main", "", edit, git.Message{}); err != nil || id != head(t, bare) {
		t.Errorf("Commit = %s, %v", id, err)
	}
}

// A branch that was taken back is not brought forward again by a commit on top of what it
// held, though GitHub would allow that.
func TestH49ATakenBackBranchIsLeftAlone(t *testing.T) {
	t.Parallel()
	_, bare, repo := seeded(t)
	h := host(t, github.Options{})
	first := head(t, bare)
	second, err := h.Commit(t.Context(), repo, "main", first, edit, git.Message{})
	if err != nil {
		t.Fatal(err)
	}
	must(bare.Git(t.Context(), "", "update-ref", "refs/heads/main", string(first)))
	_, err = h.Commit(t.Context(), repo, "main", second, []git.Edit{{Path: "g", File: []byte("g")}}, git.Message{})
	wantErr(t, "Commit", err, errs.Conflict)
	if head(t, bare) != first {
		t.Error("the branch was moved")
	}
}

// A guard that takes its time, as when pushes have to wait, does not make that worse.
func TestH49TheBranchIsLookedAtAfterALongGuard(t *testing.T) {
	t.Parallel()
	srv, err := githubtest.Serve(t.TempDir(), githubtest.Options{}, githubtest.User{Name: "emco", Token: token, Write: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	bare, err := srv.Seed(t.Context(), "acme", "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	first := head(t, bare)
	second, err := bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"f": {Content: "f"}})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		h := github.Through(srv.Transport(), github.Options{})
		m := git.Message{Guard: func(context.Context) error {
			time.Sleep(time.Minute) // of the bubble
			_, err := bare.Git(t.Context(), "", "update-ref", "refs/heads/main", string(first))
			return err
		}}
		_, err := h.Commit(t.Context(), srv.Repo("acme", "fleet", token), "main", git.Hash(second), []git.Edit{{Path: "g", File: []byte("g")}}, m)
		wantErr(t, "Commit", err, errs.Conflict)
	})
	if head(t, bare) != first {
		t.Error("the branch was moved")
	}
}

func TestH17AddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	h := host(t, github.Options{})
	for _, r := range []git.Repo{
		{URL: "ext::sh -c true"},
		{URL: "file:///o/r"},
		{URL: "-oProxyCommand=true"},
		{URL: "https://user:" + token + "@h/o/r.git"},
		{URL: "https://h/onlyone"},
		{URL: "https://h/a/b/c"},
		{URL: "https://h/o/r?t=" + token},
		{URL: "https://h/../r"},
		{URL: "https://h/o/r", API: "https://u:" + token + "@h/api"},
		{URL: "https://h/o/r", API: "file:///x"},
		{URL: "https://h/o/r", API: "https://h/?x"},
		{URL: "https://h/o/r", API: "//h/x"},
	} {
		r.Token = token
		_, err := h.Head(t.Context(), r, "main")
		wantErr(t, r.URL+" "+r.API, err, errs.Invalid)
	}
	_, err := h.Head(t.Context(), git.Repo{URL: "https://github.com/o/r", API: "http://169.254.169.254", Token: token}, "main")
	wantErr(t, "Head at a metadata address", err, errs.Forbidden)
	_, _, repo := serve(t, githubtest.Limits{})
	strict := host(t, github.Options{Admit: func(a netip.Addr) error { return errs.E(errs.Forbidden, "dial", "", fmt.Errorf("not %s", a)) }})
	_, err = strict.Head(t.Context(), repo, "main")
	wantErr(t, "Head at an address that is not admitted", err, errs.Forbidden)
}

func TestH18RedirectsCarryNoCredentials(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(evil.Close)
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	at := head(t, bare)
	srv.Faults(always(githubtest.Fault{Status: http.StatusTemporaryRedirect, Header: map[string]string{"Location": evil.URL}}))
	_, err := h.Head(t.Context(), repo, "main")
	wantErr(t, "Head", err, errs.Forbidden)
	_, err = h.Commit(t.Context(), repo, "main", at, edit, git.Message{})
	wantErr(t, "Commit", err, errs.Forbidden)
	if n := asked.Load(); n != 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

// A malformed answer causes a typed error, in bounded time and memory.
func TestH19NonsenseIsRefused(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	id := strings.Repeat("1", 40)
	for name, body := range map[string]string{
		"another tree":        `{"sha":"` + id + `","tree":[{"path":"a","mode":"100644","sha":"` + id + `"}]}`,
		"a path that climbs":  `{"sha":"` + id + `","tree":[{"path":"..","mode":"100644","sha":"` + id + `"}]}`,
		"a mode of letters":   `{"sha":"` + id + `","tree":[{"path":"a","mode":"rwx","sha":"` + id + `"}]}`,
		"a name that is none": `{"sha":"` + id + `","tree":[{"path":"a","mode":"100644","sha":"x"}]}`,
		"null":                `null`,
		"a list":              `[]`,
	} {
		h := host(t, github.Options{})
		at := head(t, bare)
		srv.Faults(func(r *http.Request) *githubtest.Fault {
			if strings.Contains(r.URL.Path, "/git/trees/") {
				return &githubtest.Fault{Status: 200, Body: body}
			}
			return nil
		})
		var err error
		for _, err = range h.Tree(t.Context(), repo, at, "") {
		}
		if !errs.Is(err, errs.Unavailable) && !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: Tree: %v of kind %v", name, err, errs.KindOf(err))
		}
		_, err = h.Commit(t.Context(), repo, "main", at, edit, git.Message{})
		if err == nil {
			t.Errorf("%s: Commit succeeds", name)
		}
	}
}
