package oidc_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/oidctest"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/oidc"
)

// report returns the claims of a logout token for EMCO, changed; nil removes one.
func report(p *oidctest.Provider, changes map[string]any) map[string]any {
	claims := p.LogoutClaims("emco-web")
	claims["sub"], claims["sid"], claims["jti"] = "dev", "s1", "j1"
	maps.Copy(claims, changes)
	return claims
}

func TestLogoutTokens(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := webVerifier(t, p, oidc.Web{Client: "emco-web", Redirect: callback})
	now := time.Now()
	all := oidc.Logout{Issuer: "corp", Subject: "user:corp:dev", SignIn: "s1", Token: "j1"}
	for name, c := range map[string]struct {
		changes map[string]any
		want    oidc.Logout
	}{
		"person and sign-in":  {nil, all},
		"person":              {map[string]any{"sid": nil}, oidc.Logout{Issuer: "corp", Subject: "user:corp:dev", Token: "j1"}},
		"sign-in":             {map[string]any{"sub": nil}, oidc.Logout{Issuer: "corp", SignIn: "s1", Token: "j1"}},
		"also for others":     {map[string]any{"aud": []string{"x", "emco-web"}}, all},
		"an event with data":  {map[string]any{"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{"a": 1}, "urn:other": map[string]any{}}}, all},
		"from a clock behind": {map[string]any{"iat": now.Add(-100 * time.Second).Unix(), "exp": now.Add(-10 * time.Second).Unix()}, all},
		"of an unknown claim": {map[string]any{"toString": "x"}, all},
	} {
		got, err := v.ReadLogout(t.Context(), p.LogoutToken(t, report(p, c.changes)))
		if issued := got.Issued; err != nil || now.Sub(issued).Abs() > 2*time.Minute {
			t.Errorf("%s: issued %s, %v", name, issued, err)
		}
		if got.Issued = (time.Time{}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestLogoutTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	p, other := oidctest.New(t), oidctest.New(t)
	v := webVerifier(t, p, oidc.Web{Client: "emco-web", Redirect: callback})
	now := time.Now()
	event := "http://schemas.openid.net/event/backchannel-logout"
	for name, c := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"of another issuer":           {map[string]any{"iss": other.URL}, "not of an issuer at which browsers sign in"},
		"of an issuer without web":    {map[string]any{"iss": "https://ci.example"}, "not of an issuer at which browsers sign in"},
		"for another audience":        {map[string]any{"aud": "emco-api"}, "audience"},
		"for nobody":                  {map[string]any{"aud": nil}, "audience"},
		"too old":                     {map[string]any{"exp": now.Add(-time.Minute).Unix()}, "expired"},
		"without an end":              {map[string]any{"exp": nil}, "expired"},
		"without a beginning":         {map[string]any{"iat": nil}, "(iat)"},
		"of the future":               {map[string]any{"iat": now.Add(time.Minute).Unix()}, "issued in the future"},
		"valid for days":              {map[string]any{"exp": now.Add(48 * time.Hour).Unix()}, "more than 24 hours"},
		"not valid yet":               {map[string]any{"nbf": now.Add(time.Hour).Unix()}, "not before"},
		"without an id":               {map[string]any{"jti": nil}, "(jti)"},
		"with a number as its id":     {map[string]any{"jti": 7}, "(jti)"},
		"without events":              {map[string]any{"events": nil}, "(events)"},
		"with a text as events":       {map[string]any{"events": event}, "(events)"},
		"with another event":          {map[string]any{"events": map[string]any{"urn:other": map[string]any{}}}, "(events)"},
		"with an event that is text":  {map[string]any{"events": map[string]any{event: "{}"}}, "(events)"},
		"with an event that is null":  {map[string]any{"events": map[string]any{event: nil}}, "(events)"},
		"with a nonce":                {map[string]any{"nonce": "x"}, "has a nonce"},
		"with an empty nonce":         {map[string]any{"nonce": ""}, "has a nonce"},
		"of nobody":                   {map[string]any{"sub": nil, "sid": nil}, "neither a person (sub) nor a sign-in (sid)"},
		"with an empty sign-in":       {map[string]any{"sid": ""}, "sid is no name"},
		"with a number as sign-in":    {map[string]any{"sid": 7}, "sid is no name"},
		"of a person with a bad name": {map[string]any{"sub": "a\nb"}, "printable"},
	} {
		_, err := v.ReadLogout(t.Context(), p.LogoutToken(t, report(p, c.changes)))
		if !errs.Is(err, errs.Unauthorized) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	header := func(typ string) map[string]any { return map[string]any{"alg": "RS256", "kid": p.KeyID(), "typ": typ} }
	forged := other.LogoutToken(t, report(p, map[string]any{"iss": p.URL}))
	good := p.LogoutToken(t, report(p, nil))
	for name, token := range map[string]string{
		"signed by another":      forged,
		"not signed":             p.Forge(map[string]any{"alg": "none", "typ": "logout+jwt"}, report(p, nil), func([]byte) []byte { return nil }),
		"of another type":        p.Forge(header("at+jwt"), report(p, nil), func([]byte) []byte { return nil }),
		"changed":                good[:len(good)-4] + "AAAA",
		"cut":                    good[:len(good)/2],
		"no token":               "x",
		"empty":                  "",
		"an ID token":            p.Token(t, map[string]any{"aud": "emco-web", "sub": "dev", "sid": "s1"}),
		"longer than any token":  good + strings.Repeat("x", 20<<10),
		"with a header of bytes": "!!!" + good[strings.Index(good, "."):],
	} {
		if got, err := v.ReadLogout(t.Context(), token); !errs.Is(err, errs.Unauthorized) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A logout token names a person and may have the audience of tokens that callers send. It is no credential, and ends no sign-in.
func TestLogoutTokensSignNobodyIn(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := webVerifier(t, p, oidc.Web{Client: "emco-api", Redirect: callback}) // one client for all, as with a provider that knows no audiences
	token := p.LogoutToken(t, report(p, map[string]any{"aud": "emco-api"}))
	if _, err := v.ReadLogout(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	if c, err := v.Verify(t.Context(), token); !errs.Is(err, errs.Unauthorized) || !strings.Contains(err.Error(), "is no credential") {
		t.Errorf("as a bearer token it is %+v, %v", c, err)
	}
}

// While the keys of the issuer cannot be read, nothing is decided.
func TestLogoutTokensWhileTheIssuerIsDown(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := webVerifier(t, p, oidc.Web{Client: "emco-web", Redirect: callback})
	p.SetDown(true)
	if _, err := v.ReadLogout(t.Context(), p.LogoutToken(t, report(p, nil))); !errs.Is(err, errs.Unavailable) {
		t.Error(err)
	}
}

// The sign-in of a browser has the name that the issuer gives it.
func TestSignInsHaveTheIssuersName(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	v := webVerifier(t, p, oidc.Web{Client: "emco-web", Redirect: callback})
	for _, c := range []struct {
		sid  any
		want string
	}{{"s1", "s1"}, {nil, ""}, {7, ""}} {
		challenge := oidc.NewChallenge()
		claims := map[string]any{"sub": "dev", "iat": time.Now().Add(-time.Second).Unix()}
		if c.sid != nil {
			claims["sid"] = c.sid
		}
		answer, err := oidc.ReadAnswer(visit(t, v, p, challenge, claims))
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.SignIn(t.Context(), "corp", challenge, answer)
		if err != nil || got.ID != c.want || got.Issued.Unix() != claims["iat"] {
			t.Errorf("sid %v: %q, issued %s, %v", c.sid, got.ID, got.Issued, err)
		}
	}
}
