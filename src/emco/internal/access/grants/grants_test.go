package grants_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/apitoken"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/identity"
)

// installation is a store with the routes of roles and bindings, and a clock.
type installation struct {
	*testing.T
	db     *store.DB
	now    time.Time
	routes *mux.Router
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	driver, err := sqlite.Open(filepath.Join(t.TempDir(), "documents.db"), sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = driver.Close() })
	i := &installation{T: t, db: store.New(driver, nil, seal.New(seal.NewKey())), now: time.Now(), routes: mux.NewRouter()}
	identity.Resources{DB: i.db, Grants: i.process(), Now: i.clock}.Mount(i.routes)
	return i
}

func (i *installation) clock() time.Time { return i.now }

// process returns the cache of one more process.
func (i *installation) process() *grants.Cache {
	return grants.New(i.db, slog.New(slog.DiscardHandler), i.clock)
}

// bootstrap starts a process, and returns its cache and the token that it makes.
func (i *installation) bootstrap(given string) (*grants.Cache, string) {
	i.Helper()
	d := i.process()
	made, err := d.Bootstrap(i.Context(), given)
	if err != nil {
		i.Fatal(err)
	}
	return d, made
}

func (i *installation) send(method, path, body string, want int) {
	i.Helper()
	r := httptest.NewRequest(method, "/v2/"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	i.routes.ServeHTTP(w, r)
	if w.Code != want {
		i.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}

// knows reports whether a process lets the holder of a token in.
func (i *installation) knows(d *grants.Cache, token string) bool {
	i.Helper()
	if err := d.Refresh(i.Context()); err != nil {
		i.Fatal(err)
	}
	_, known, err := d.Token(apitoken.Digest(token))
	if err != nil {
		i.Fatal(err)
	}
	return known
}

// countedReads counts the reads of changes.
type countedReads struct {
	*sqlite.Driver
	n atomic.Int64
}

func (c *countedReads) Changes(ctx context.Context, mark int64) (store.Changes, error) {
	c.n.Add(1)
	return c.Driver.Changes(ctx, mark)
}

// A token that one process has made is valid in the others at once, and wrong ones cost few reads.
func TestTokensOfOtherProcessesAreKnownAtOnce(t *testing.T) {
	t.Parallel()
	driver, err := sqlite.Open(filepath.Join(t.TempDir(), "documents.db"), sqlite.WithoutFsync())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = driver.Close() })
	reads := &countedReads{Driver: driver}
	db := store.New(reads, nil, seal.New(seal.NewKey()))
	first, second := grants.New(db, slog.New(slog.DiscardHandler), nil), grants.New(db, slog.New(slog.DiscardHandler), nil)
	if err := second.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, err := first.Bootstrap(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	known := func() bool {
		t.Helper()
		_, known, err := second.Token(apitoken.Digest(token))
		if err != nil {
			t.Error(err)
		}
		return known
	}
	if known() {
		t.Fatal("the second process knows the token before it reads")
	}
	if err := second.LookAgain(t.Context()); err != nil || !known() {
		t.Fatalf("the token is not known: %v", err)
	}

	reads.n.Store(0)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if err := second.LookAgain(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := reads.n.Load(); n < 1 || n > 20 {
		t.Errorf("200 looks at the same time read %d times", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.LookAgain(ctx); err == nil {
		t.Error("a look whose caller has left is no error")
	}
}

const admins = `{"metadata":{"name":"admins"},"spec":{"role":"platform-admin","subjects":["user:corp:root"]}}`

// No process has seen the administrator that comes and goes between two looks.
func TestAnUnseenAdministratorEndsTheBootstrapToken(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	d, token := i.bootstrap("")
	if !i.knows(d, token) {
		t.Fatal("the token is not valid")
	}
	i.send("POST", "role-bindings", admins, 201)
	i.send("DELETE", "role-bindings/admins?dryRun=true", "", 204)
	i.send("DELETE", "role-bindings/admins", "", 204)
	if i.knows(d, token) {
		t.Error("the token is valid again")
	}
}

// An administrator whose binding expires does not bring the token back.
func TestAnExpiredAdministratorDoesNotBringTheBootstrapTokenBack(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	d, token := i.bootstrap("")
	end := i.now.Add(time.Hour).UTC().Format(time.RFC3339)
	i.send("POST", "role-bindings", strings.Replace(admins, `]}}`, `],"expires":"`+end+`"}}`, 1), 201)
	if i.knows(d, token) {
		t.Error("the token is valid beside an administrator")
	}
	i.now = i.now.Add(2 * time.Hour)
	if i.knows(d, token) || i.knows(i.process(), token) {
		t.Error("the token is valid again")
	}
	d, next := i.bootstrap("")
	if next == "" || !i.knows(d, next) {
		t.Fatal("a start without an administrator makes no token")
	}
	i.send("DELETE", "role-bindings/admins", "", 204) // it has expired: the token that was made since stays
	if !i.knows(d, next) {
		t.Error("the deletion of an expired binding ends the token")
	}
	i.now = i.now.Add(25 * time.Hour)
	if i.knows(d, next) {
		t.Error("the token is valid after 24 hours")
	}
}

// An API token is accepted until its end, and no longer, in a process that knew it and in one that reads it for the first time.
func TestAnAPITokenEnds(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	d := i.process()
	end := i.now.Add(time.Hour).UTC().Format(time.RFC3339)
	r := httptest.NewRequest("POST", "/v2/tokens", strings.NewReader(`{"metadata":{"name":"ci"},"spec":{"role":"viewer","expires":"`+end+`"}}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	i.routes.ServeHTTP(w, r)
	var made v2.NewAPIToken
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || made.Token == "" {
		t.Fatalf("making a token: %d %s, %v", w.Code, w.Body, err)
	}
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {58 * time.Minute, true}, {61 * time.Minute, false}, {24 * time.Hour, false}} {
		now := i.now
		i.now = now.Add(c.after)
		if known, anew := i.knows(d, made.Token), i.knows(i.process(), made.Token); known != c.want || anew != c.want {
			t.Errorf("after %s the token is valid: %v, and in another process %v, want %v", c.after, known, anew, c.want)
		}
		i.now = now
	}
}

// The token of a file is not given a second time.
func TestTheTokenOfAFileEnds(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	const token = "a token of at least 32 characters"
	d, made := i.bootstrap(token)
	if made != "" || !i.knows(d, token) {
		t.Fatalf("made %q", made)
	}
	i.send("POST", "role-bindings", admins, 201)
	i.send("DELETE", "role-bindings/admins", "", 204)
	for _, again := range []string{token, ""} {
		d, made = i.bootstrap(again)
		if i.knows(d, token) || (made == "") != (again != "") {
			t.Errorf("a start with %q: made %q, the former token is valid: %v", again, made, i.knows(d, token))
		}
	}
}
