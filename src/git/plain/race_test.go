package plain_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// requestLog is a proxy before a Git server. It notes the requests, and answers 404 for paths without prefix.
type requestLog struct {
	proxy *httputil.ReverseProxy

	mu     sync.Mutex
	prefix string   // guarded by mu
	seen   []string // guarded by mu
}

func (l *requestLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.seen = append(l.seen, r.Method+" "+strings.TrimPrefix(path.Base(r.URL.Path)+" "+r.URL.Query().Get("service"), "refs git-"))
	prefix := l.prefix
	l.mu.Unlock()
	below, ok := strings.CutPrefix(r.URL.Path, prefix)
	if !ok {
		if r.Method == http.MethodGet {
			http.Redirect(w, r, prefix+r.URL.Path+"?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
			return
		}
		http.NotFound(w, r)
		return
	}
	r.URL.Path = below
	l.proxy.ServeHTTP(w, r)
}

// take returns the requests since the last call.
func (l *requestLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.seen
	l.seen = nil
	return seen
}

// moveTo moves the repositories below a prefix; reads of the old place are redirected.
func (l *requestLog) moveTo(prefix string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prefix = prefix
}

// logged returns a server whose requests are noted.
func logged(t *testing.T) (*requestLog, gittest.Bare, git.Repo) {
	t.Helper()
	_, bare, repo := server(t)
	at, err := url.Parse(repo.URL)
	if err != nil {
		t.Fatal(err)
	}
	l := &requestLog{proxy: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: at.Scheme, Host: at.Host})}
	front := httptest.NewServer(l)
	t.Cleanup(front.Close)
	repo.URL = front.URL + at.Path
	return l, bare, repo
}

// commitOn does what a writer does on top of a head: it reads the commits since an earlier one, and commits.
func commitOn(t *testing.T, h git.LogReader, repo git.Repo, since, head git.Hash, content string) (git.Hash, error) {
	t.Helper()
	if _, err := h.Since(t.Context(), repo, head, since); err != nil {
		t.Fatal(err)
	}
	return h.(git.Host).Commit(t.Context(), repo, "main", head, []git.Edit{{Path: "ours", File: []byte(content)}}, git.Message{})
}

// Between the read of a head and the push on top of it, another writer wins the race if it commits. So there is no request in
// between that does not bring anything new: two fetch what others have committed.
func TestALostRaceCostsFourRequests(t *testing.T) {
	t.Parallel()
	l, bare, repo := logged(t)
	h := newHost(t)
	first := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"theirs": {Content: "1"}})
	own, err := commitOn(t, h, repo, first, first, "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"2", "3"} {
		theirs := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"theirs": {Content: text}})
		l.take()
		if _, err := commitOn(t, h, repo, own, own, text); !errs.Is(err, errs.Conflict) {
			t.Fatalf("a commit on a head that has moved: %v, want Conflict", err)
		}
		if got := l.take(); !slices.Equal(got, []string{"GET receive-pack"}) {
			t.Errorf("a race that is lost before the push: %q, want a look at the branch", got)
		}
		head, err := h.Head(t.Context(), repo, "main")
		if err != nil || head != theirs {
			t.Fatalf("the head is %s, %v, want %s", head, err, theirs)
		}
		if own, err = commitOn(t, h, repo, own, head, text); err != nil {
			t.Fatal(err)
		}
		want := []string{"GET upload-pack", "POST git-upload-pack ", "POST git-upload-pack ", "POST git-receive-pack "}
		if got := l.take(); !slices.Equal(got, want) {
			t.Errorf("a commit after a lost race: %q, want %q", got, want)
		}
	}
	if got, err := bare.Show(t.Context(), "main", "ours"); err != nil || got != "3" {
		t.Errorf("the branch contains %q, %v, want 3", got, err)
	}
	// What was read may be old: the server compares.
	head, err := h.Head(t.Context(), repo, "main")
	if err != nil {
		t.Fatal(err)
	}
	foreign(t, t.Context(), bare, "main", map[string]gittest.File{"theirs": {Content: "4"}})
	if _, err := commitOn(t, h, repo, head, head, "4"); !errs.Is(err, errs.Conflict) {
		t.Errorf("a commit that loses the race in the push: %v, want Conflict", err)
	}
}

// A repository that moves on its server is found again, although the writer remembers what the server could do at the old place.
func TestARepositoryThatMovesIsFoundAgain(t *testing.T) {
	t.Parallel()
	l, bare, repo := logged(t)
	h := newHost(t)
	head := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"theirs": {Content: "0"}})
	own, err := commitOn(t, h, repo, head, head, "1")
	if err != nil {
		t.Fatal(err)
	}
	l.moveTo("/moved")
	theirs := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"theirs": {Content: "1"}})
	if _, err := commitOn(t, h, repo, own, theirs, "2"); err != nil {
		t.Fatalf("a fetch and a push at the old place: %v", err)
	}
	l.moveTo("/moved/again")
	if head, err = h.Head(t.Context(), repo, "main"); err != nil {
		t.Fatal(err)
	}
	if _, err := commitOn(t, h, repo, head, head, "3"); err != nil {
		t.Fatalf("a push at the old place: %v", err)
	}
	if got, err := bare.Show(t.Context(), "main", "ours"); err != nil || got != "3" {
		t.Errorf("the branch contains %q, %v, want 3", got, err)
	}
}
