package signin_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/oidctest"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/signin"
)

func discover(t *testing.T, op *oidctest.Provider, change func(*signin.Issuer)) *signin.Provider {
	t.Helper()
	i := signin.Issuer{Name: "corp", URL: op.URL, Client: "emcoctl", Audience: "emco-api"}
	change(&i)
	p, err := signin.Discover(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func same(*signin.Issuer) {}

// visit opens a page as a browser does.
func visit(t *testing.T, page string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// subject returns whom a token for the audience names.
func subject(t *testing.T, op *oidctest.Provider, g signin.Grant, audience string) string {
	t.Helper()
	claims, ok := op.Verify(g.Token.Reveal())
	if !ok || claims["aud"] != audience || !g.Ends.After(time.Now()) {
		t.Fatalf("claims %v, signed %v, ends %s", claims, ok, g.Ends)
	}
	name, _ := claims["sub"].(string)
	return name
}

func TestAPersonSignsInWithABrowser(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	op.SetPerson(map[string]any{"sub": "ann"})
	for what, c := range map[string]struct {
		change   func(*signin.Issuer)
		audience string
	}{
		"the provider knows audiences":      {same, "emco-api"},
		"the server accepts the id token":   {func(i *signin.Issuer) { i.Audience = "emcoctl" }, "emcoctl"},
		"the audience is the server's name": {func(i *signin.Issuer) { i.Audience = "https://emco.example" }, "https://emco.example"},
	} {
		g, err := discover(t, op, c.change).Browser(t.Context(), 0, func(page string) { visit(t, page) })
		if err != nil || subject(t, op, g, c.audience) != "ann" || g.Refresh == "" {
			t.Errorf("%s: %+v, %v", what, g, err)
		}
	}
}

// Whoever does not know the state of the sign-in can neither end it nor bring a code in.
func TestOtherPagesDoNotDisturbASignIn(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	op.SetPerson(map[string]any{"sub": "ann"})
	g, err := discover(t, op, same).Browser(t.Context(), 0, func(page string) {
		u, err := url.Parse(page)
		if err != nil {
			t.Fatal(err)
		}
		back := u.Query().Get("redirect_uri")
		if !strings.HasPrefix(back, "http://127.0.0.1:") || u.Query().Get("code_challenge") == "" {
			t.Errorf("the page is %s", page)
		}
		for _, forged := range []string{"?code=mine", "?error=access_denied", "?state=guess&code=mine", "/more?state=" + u.Query().Get("state")} {
			if got := visit(t, back+forged); got != http.StatusNotFound {
				t.Errorf("%s: %d", forged, got)
			}
		}
		visit(t, page)
	})
	if err != nil || subject(t, op, g, "emco-api") != "ann" {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestSignInsThatFail(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	browser := func(change func(*signin.Issuer), show func(page string)) error {
		_, err := discover(t, op, change).Browser(t.Context(), 0, show)
		return err
	}
	fails := func(what string, err error, kind errs.Kind, want string) {
		t.Helper()
		if !errs.Is(err, kind) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v (%v), want %q (%v)", what, err, errs.KindOf(err), want, kind)
		}
	}
	answer := func(change string) func(page string) {
		return func(page string) {
			u, err := url.Parse(page)
			if err != nil {
				t.Fatal(err)
			}
			visit(t, u.Query().Get("redirect_uri")+"?state="+u.Query().Get("state")+change)
		}
	}
	fails("nobody", browser(same, func(page string) { visit(t, page) }), errs.Unauthorized, "the sign-in was refused there")
	fails("a code of somebody else", browser(same, answer("&code=stolen")), errs.Unauthorized, "the sign-in has ended there")
	fails("another issuer", browser(same, answer("&code=x&iss=https://evil.example")), errs.Invalid, "another issuer answered")
	fails("no code", browser(same, answer("")), errs.Invalid, "it sent no code")
	op.SetPerson(map[string]any{"sub": "ann", "aud": "another-api"})
	fails("no token for the server", browser(same, func(page string) { visit(t, page) }), errs.Unauthorized, "gave no token for the audience emco-api")

	for url, want := range map[string]string{"http://id.example.org": "must begin with https://", op.URL + "/": "it calls itself"} {
		_, err := signin.Discover(t.Context(), signin.Issuer{Name: "corp", URL: url})
		fails(url, err, errs.Invalid, want)
	}
	op.SetDown(true)
	if _, err := signin.Discover(t.Context(), signin.Issuer{Name: "corp", URL: op.URL}); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a provider that is down: %v", err)
	}
	op.SetDown(false)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := discover(t, op, same).Browser(ctx, 0, func(string) { cancel() })
	if ctx.Err() == nil || err == nil || errs.KindOf(err) != errs.Internal {
		t.Errorf("a sign-in that is interrupted: %v", err)
	}
}

// Emcoctl and emco call the same addresses safe.
func TestNamesOfThisMachineArePrivate(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"http://emco.localhost:9015": true, "http://LOCALHOST": true, "http://127.0.0.1:1": true, "https://id.example.org": true,
		"http://id.example.org": false, "http://localhost.example.org": false, "id.example.org": false, "http://%zz": false,
	} {
		if got := signin.Private(address); got != want {
			t.Errorf("Private(%q) = %t", address, got)
		}
	}
}

func TestAPersonSignsInOnAnotherDevice(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	p := discover(t, op, same)
	g, err := p.Device(t.Context(), func(v signin.Verification) {
		if v.URL != op.URL+"/activate" || !strings.Contains(v.Complete, v.Code) {
			t.Errorf("%+v", v)
		}
		if !op.Approve(v.Code, map[string]any{"sub": "ann"}) {
			t.Error("no device waits")
		}
	})
	if err != nil || subject(t, op, g, "emco-api") != "ann" {
		t.Errorf("%+v, %v", g, err)
	}
	_, err = p.Device(t.Context(), func(v signin.Verification) { op.Deny(v.Code) })
	if !errs.Is(err, errs.Unauthorized) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("refused: %v", err)
	}
}

func TestAGrantIsRenewedAndEnded(t *testing.T) {
	t.Parallel()
	op := oidctest.New(t)
	op.SetPerson(map[string]any{"sub": "ann"})
	p := discover(t, op, same)
	first, err := p.Browser(t.Context(), 0, func(page string) { visit(t, page) })
	if err != nil {
		t.Fatal(err)
	}
	next, err := p.Refresh(t.Context(), first.Refresh)
	if err != nil || subject(t, op, next, "emco-api") != "ann" || next.Refresh == first.Refresh {
		t.Fatalf("%+v, %v", next, err)
	}
	if err := p.Revoke(t.Context(), next.Refresh); err != nil || op.Sessions() != 0 {
		t.Errorf("%v; %d sessions", err, op.Sessions())
	}
	if _, err := p.Refresh(t.Context(), next.Refresh); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("after its end: %v", err)
	}
}

// The error of an issuer with an unknown authority names the flag of login, and not the one for the server.
func TestTheAuthorityOfTheIssuerIsUnknown(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	_, err := signin.Discover(t.Context(), signin.Issuer{Name: "corp", URL: s.URL})
	if err == nil || !strings.Contains(err.Error(), "--issuer-ca-file FILE") || output.Next(err) != "" {
		t.Errorf("%v; next %q; want --issuer-ca-file and nothing next", err, output.Next(err))
	}
}
