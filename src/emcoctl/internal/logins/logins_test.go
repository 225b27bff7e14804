package logins_test

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/oidctest"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/logins"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/signin"
)

const server = "https://emco.example"

// signedIn returns a store with a sign-in at server whose tokens live for life.
func signedIn(t *testing.T, op *oidctest.Provider, life time.Duration) logins.Store {
	t.Helper()
	op.SetPerson(map[string]any{"sub": "ann"})
	op.SetLife(life)
	i := signin.Issuer{Name: "corp", URL: op.URL, Client: "emcoctl", Audience: "emco-api"}
	p, err := signin.Discover(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	g, err := p.Browser(t.Context(), 0, func(page string) {
		res, err := http.Get(page)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	s := logins.Store{Dir: filepath.Join(t.TempDir(), "logins")}
	if err := s.Save(t.Context(), logins.Login{Server: server, Issuer: i, Grant: g}); err != nil {
		t.Fatal(err)
	}
	return s
}

// file returns the one file of a store.
func file(t *testing.T, s logins.Store) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.Dir, "*.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return found[0]
}

func TestATokenGoesToItsServerOnly(t *testing.T) {
	t.Parallel()
	s := signedIn(t, oidctest.New(t), time.Hour)
	for _, c := range []struct {
		server, user string
		want         bool
	}{{server, "", true}, {server, "other", false}, {server + ".evil", "", false}, {"http://emco.example", "", false}} {
		if got, err := s.Token(t.Context(), c.server, c.user); (got != "") != c.want || err != nil {
			t.Errorf("%s %s: a token %v, %v", c.server, c.user, got != "", err)
		}
	}
	if _, err := (logins.Store{}).Token(t.Context(), server, ""); err != nil {
		t.Errorf("without a home: %v", err)
	}
}

func TestOnlyTheOwnerReadsASignIn(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode there")
	}
	s := signedIn(t, oidctest.New(t), time.Hour)
	for path, want := range map[string]os.FileMode{file(t, s): 0o600, s.Dir: 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := os.Chmod(file(t, s), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Token(t.Context(), server, ""); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "others may read it") {
		t.Errorf("a file that others may read: %v", err)
	}
	if _, err := s.Remove(t.Context(), server, ""); err != nil {
		t.Errorf("it cannot be removed: %v", err)
	}
}

// Many commands at once renew a token one time: a refresh token that is used twice ends the sign-in.
func TestATokenIsRenewedOnce(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	s := signedIn(t, op, time.Second) // within the margin from the beginning
	op.SetLife(time.Hour)
	var all sync.WaitGroup
	tokens := make([]string, 8)
	for i := range tokens {
		all.Go(func() {
			token, err := s.Token(t.Context(), server, "")
			if err != nil {
				t.Error(err)
			}
			tokens[i] = token.Reveal()
		})
	}
	all.Wait()
	for _, token := range tokens {
		if _, ok := op.Verify(token); !ok || token != tokens[0] {
			t.Errorf("token %q beside %q, valid %v", token, tokens[0], ok)
		}
	}
	if op.Sessions() != 1 {
		t.Errorf("%d refresh tokens", op.Sessions())
	}
}

func TestASignInEnds(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	s := signedIn(t, op, -time.Second)
	op.SetDown(true)
	if _, err := s.Token(t.Context(), server, ""); err == nil || errs.Is(err, errs.Unauthorized) {
		t.Errorf("while the provider is down: %v", err)
	}
	op.SetDown(false)
	op.EndSessions()
	if _, err := s.Token(t.Context(), server, ""); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("after the provider ended it: %v", err)
	}
	l, err := s.Remove(t.Context(), server, "")
	if err != nil || l.Issuer.URL != op.URL || l.Refresh == "" {
		t.Errorf("%+v, %v", l.Issuer, err)
	}
	if token, err := s.Token(t.Context(), server, ""); token != "" || err != nil {
		t.Errorf("after the sign-out: %v, %v", token != "", err)
	}
	if _, err := s.Remove(t.Context(), server, ""); !errs.Is(err, errs.NotFound) {
		t.Errorf("a second sign-out: %v", err)
	}
}

// A provider that is away does not stop work while the token is valid.
func TestAnOutageDoesNotEndAValidToken(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	s := signedIn(t, op, 30*time.Second) // within the margin
	op.SetDown(true)
	if token, err := s.Token(t.Context(), server, ""); token == "" || err != nil {
		t.Errorf("a token %v, %v", token != "", err)
	}
}

func TestASpoiltFileIsRefused(t *testing.T) {
	t.Parallel()
	s := signedIn(t, oidctest.New(t), time.Hour)
	name := file(t, s)
	for _, text := range []string{"", "{", `{"server":"https://evil.example","token":"x","ends":"2999-01-01T00:00:00Z"}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if token, err := s.Token(t.Context(), server, ""); token != "" || !errs.Is(err, errs.Malformed) {
			t.Errorf("%q: a token %v, %v", text, token != "", err)
		}
	}
}
