package oidc_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/oidctest"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/oidc"
)

const callback = "https://127.0.0.1/v2/auth/callback"

func webVerifier(t *testing.T, p *oidctest.Provider, web oidc.Web) *oidc.Verifier {
	t.Helper()
	v, err := oidc.New([]oidc.Issuer{{Name: "corp", URL: p.URL, Audience: "emco-api", Web: web}, {Name: "ci", URL: "https://ci.example", Audience: "emco-api"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// visit has a person sign in at the provider, and returns with what it sends the browser back.
func visit(t *testing.T, v *oidc.Verifier, p *oidctest.Provider, c oidc.Challenge, claims map[string]any) url.Values {
	t.Helper()
	p.SetPerson(claims)
	page, err := v.SignInURL(t.Context(), "corp", c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	back, err := res.Location()
	if err != nil || !strings.HasPrefix(back.String(), callback+"?") {
		t.Fatalf("the provider sends the browser to %v: %v", back, err)
	}
	return back.Query()
}

func TestSignInsOfBrowsers(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := webVerifier(t, p, oidc.Web{Client: "emco-web", Redirect: callback})
	dev := map[string]any{"sub": "dev", "groups": []string{"shop"}}
	set := func(name, value string) func(url.Values) { return func(q url.Values) { q.Set(name, value) } }
	as := func(name string, value any) map[string]any {
		return map[string]any{"sub": "dev", name: value}
	}
	for name, c := range map[string]struct {
		claims map[string]any
		change func(url.Values)
		want   string // of the refusal; empty: it is accepted
	}{
		"a sign-in":             {dev, nil, ""},
		"another state":         {dev, set("state", "x"), "another sign-in (state)"},
		"no state":              {dev, set("state", ""), "another sign-in (state)"},
		"another issuer":        {dev, set("iss", "https://evil.example"), "does not name this issuer"},
		"no issuer":             {dev, set("iss", ""), "does not name this issuer"},
		"another code":          {dev, set("code", "x"), "does not take the code"},
		"no code":               {dev, set("code", ""), "has no code"},
		"two states":            {dev, func(q url.Values) { q.Add("state", "x") }, "state twice"},
		"the issuer says no":    {nil, nil, `says "access_denied"`},
		"another nonce":         {as("nonce", "x"), nil, "another sign-in (nonce)"},
		"of another client":     {as("azp", "other"), nil, "another client (azp)"},
		"for two audiences":     {as("aud", []string{"emco-web", "other"}), nil, "another client (azp)"},
		"for another audience":  {as("aud", "emco-api"), nil, "audience"},
		"without a name":        {map[string]any{"sub": ""}, nil, "sub"},
		"with very many groups": {as("groups", strings.Split(strings.Repeat("a-rather-long-name,", 1000), ",")), nil, "no ID token"},
	} {
		challenge := oidc.NewChallenge()
		q := visit(t, v, p, challenge, c.claims)
		if c.change != nil {
			c.change(q)
		}
		answer, err := oidc.ReadAnswer(q)
		subject := ""
		if err == nil {
			person, failure := v.SignIn(t.Context(), "corp", challenge, answer)
			subject, err = person.Caller.Subject, failure
		}
		switch {
		case c.want == "" && (err != nil || subject != "user:corp:dev"):
			t.Errorf("%s: %q, %v", name, subject, err)
		case c.want != "" && (subject != "" || !errs.Is(err, errs.Unauthorized) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %q, %v; want it refused with %q", name, subject, err, c.want)
		}
	}
}

// A code works once, and with the verifier of its own sign-in only.
func TestCodesWorkOnce(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := webVerifier(t, p, oidc.Web{Client: "emco-web", Redirect: callback})
	challenge := oidc.NewChallenge()
	answer, err := oidc.ReadAnswer(visit(t, v, p, challenge, map[string]any{"sub": "dev"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.SignIn(t.Context(), "corp", challenge, answer); err != nil {
		t.Fatal(err)
	}
	if _, err := v.SignIn(t.Context(), "corp", challenge, answer); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("the code works twice: %v", err)
	}
	answer, err = oidc.ReadAnswer(visit(t, v, p, challenge, map[string]any{"sub": "dev"}))
	if err != nil {
		t.Fatal(err)
	}
	other := oidc.NewChallenge()
	other.State, other.Nonce = challenge.State, challenge.Nonce
	if _, err := v.SignIn(t.Context(), "corp", other, answer); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("the code works without its verifier: %v", err)
	}
}

func TestConfidentialClients(t *testing.T) {
	t.Parallel()
	for _, method := range []string{oidctest.Basic, oidctest.Post} {
		t.Run(method, func(t *testing.T) { t.Parallel(); confidentialClients(t, method) })
	}
}

// confidentialClients tests sign-ins at a provider that takes secrets by one method only.
func confidentialClients(t *testing.T, method string) {
	p := oidctest.New(t)
	p.SetSecret("emco-web", "right")
	p.SetMethod(method)
	signIn := func(secret func() (string, error)) error {
		v := webVerifier(t, p, oidc.Web{Client: "emco-web", Redirect: callback, Secret: secret})
		challenge := oidc.NewChallenge()
		page, err := v.SignInURL(t.Context(), "corp", challenge)
		if err != nil {
			return err
		}
		if strings.Contains(page, "right") || strings.Contains(page, challenge.Verifier) {
			t.Errorf("the browser gets what it must not see: %s", page)
		}
		answer, err := oidc.ReadAnswer(visit(t, v, p, challenge, map[string]any{"sub": "dev"}))
		if err == nil {
			_, err = v.SignIn(t.Context(), "corp", challenge, answer)
		}
		return err
	}
	if err := signIn(func() (string, error) { return "right", nil }); err != nil {
		t.Error(err)
	}
	for name, secret := range map[string]func() (string, error){
		"a wrong secret": func() (string, error) { return "wrong", nil },
		"no secret":      nil,
		"a file that is gone": func() (string, error) {
			return "", errors.New("no such file")
		},
	} {
		if err := signIn(secret); !errs.Is(err, errs.Unavailable) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIssuersWithoutBrowsers(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := webVerifier(t, p, oidc.Web{Client: "emco-web", Redirect: callback})
	for _, name := range []string{"ci", "nowhere", ""} {
		if _, err := v.SignInURL(t.Context(), name, oidc.NewChallenge()); !errs.Is(err, errs.NotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got := v.Prefixes(); len(got) != 1 || got["corp"] != "corp:" {
		t.Errorf("issuers for browsers: %v", got)
	}
	p.SetDown(true)
	if _, err := v.SignInURL(t.Context(), "corp", oidc.NewChallenge()); !errs.Is(err, errs.Unavailable) {
		t.Errorf("while the provider is down: %v", err)
	}
}

// Groups that a provider returns only to clients that request their scope reach the session. Where no such scope exists, nothing
// unknown is asked for.
func TestGroupsOfBrowsersAreAskedFor(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	for scopes, want := range map[string]string{"openid groups": "group:corp:shop", "openid": ""} {
		p.Describe(map[string]any{"scopes_supported": strings.Fields(scopes)})
		v := webVerifier(t, p, oidc.Web{Client: "emco-web", Redirect: callback})
		challenge := oidc.NewChallenge()
		page, err := v.SignInURL(t.Context(), "corp", challenge)
		if err != nil {
			t.Fatal(err)
		}
		if u, err := url.Parse(page); err != nil || u.Query().Get("scope") != scopes {
			t.Errorf("the provider is asked with %s; want the scopes %s", page, scopes)
		}
		answer, err := oidc.ReadAnswer(visit(t, v, p, challenge, map[string]any{"sub": "dev", "groups": []string{"shop"}}))
		if err != nil {
			t.Fatal(err)
		}
		person, err := v.SignIn(t.Context(), "corp", challenge, answer)
		if err != nil || strings.Join(person.Caller.Groups, " ") != want {
			t.Errorf("%s: groups %v, %v; want %q", scopes, person.Caller.Groups, err, want)
		}
	}
}

// A provider whose discovery document had no endpoints, or has changed them, is asked again.
func TestDiscoveryIsRepeated(t *testing.T) {
	t.Parallel()
	p, now := oidctest.New(t), new(clock)
	v, err := oidc.New([]oidc.Issuer{{Name: "corp", URL: p.URL, Audience: "emco-api", Web: oidc.Web{Client: "emco-web", Redirect: callback}}}, now.now)
	if err != nil {
		t.Fatal(err)
	}
	page := func() string {
		text, err := v.SignInURL(t.Context(), "corp", oidc.NewChallenge())
		if err != nil && !errs.Is(err, errs.Unavailable) {
			t.Fatal(err)
		}
		before, _, _ := strings.Cut(text, "?")
		return strings.TrimPrefix(before, p.URL)
	}
	step := func(after time.Duration, changes map[string]any, want string) {
		t.Helper()
		now.forward(after)
		p.Describe(changes)
		if got := page(); got != want {
			t.Errorf("the provider says %v: people sign in at %q, want %q", changes, got, want)
		}
	}
	step(0, map[string]any{"authorization_endpoint": nil}, "")
	step(time.Second, nil, "") // asked a moment ago
	step(10*time.Second, nil, "/authorize")
	moved := map[string]any{"authorization_endpoint": p.URL + "/moved"}
	step(3*time.Hour, moved, "/authorize")
	p.SetDown(true)
	step(time.Hour, moved, "/authorize")
	p.SetDown(false)
	step(time.Minute, moved, "/authorize")
	step(5*time.Minute, moved, "/moved")
}

// Why the provider cannot be reached is in the error. The code and the secret are not.
func TestConnectionsThatFailSayWhy(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	p.Describe(map[string]any{"token_endpoint": "https://planted:pw@127.0.0.1:1/token?key=planted"})
	v := webVerifier(t, p, oidc.Web{Client: "emco-web", Redirect: callback, Secret: func() (string, error) { return "planted-secret", nil }})
	challenge := oidc.NewChallenge()
	answer, err := oidc.ReadAnswer(visit(t, v, p, challenge, map[string]any{"sub": "dev"}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.SignIn(t.Context(), "corp", challenge, answer)
	if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "planted") || strings.Contains(err.Error(), answer.Code) {
		t.Errorf("error = %v", err)
	}
}
