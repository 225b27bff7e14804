package oidctest

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// signIn is a person that is signed in at the provider in a browser.
type signIn struct {
	person  string
	clients map[string]bool // that got tokens
}

// Reporter is how a client learns that people have signed out at the provider (OpenID Connect Back-Channel Logout 1.0).
type Reporter struct {
	URL     string // of the client
	Names   bool   // ID tokens and reports name the sign-in (sid)
	Persons bool   // reports name the person (sub)
}

// Report has the provider report to a client from now on.
func (p *Provider) Report(client string, to Reporter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports[client] = to
}

// SignIn returns the name of the sign-in of the person at the browser.
func (p *Provider) SignIn() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signIn
}

// Answer is what a client answers to a report.
type Answer struct {
	Token  string // the logout token
	Status int
	Header http.Header
	Body   string
}

// SignOut ends a sign-in of a person at the provider, or all if the name is empty, and reports it to the clients that got tokens
// in it. Their codes and refresh tokens are of no use any more.
func (p *Provider) SignOut(t testing.TB, person, name string) (answers []Answer) {
	t.Helper()
	type report struct {
		to     Reporter
		claims map[string]any
	}
	var all []report
	p.mu.Lock()
	for id, s := range p.signIns {
		if s.person != person || name != "" && name != id {
			continue
		}
		delete(p.signIns, id)
		for client := range s.clients {
			to, told := p.reports[client]
			claims := p.LogoutClaims(client)
			if to.Names {
				claims["sid"] = id
			}
			if to.Persons {
				claims["sub"] = person
			}
			again := !to.Names && slices.ContainsFunc(all, func(r report) bool { return r.claims["aud"] == client })
			if told && !again {
				all = append(all, report{to, claims})
			}
		}
	}
	p.mu.Unlock()
	for _, r := range all {
		answers = append(answers, Deliver(t, r.to.URL, p.LogoutToken(t, r.claims)))
	}
	return answers
}

// LogoutClaims returns the claims of a logout token for a client that names neither a person nor a sign-in.
func (p *Provider) LogoutClaims(client string) map[string]any {
	return map[string]any{
		"aud": client, "jti": rand.Text(), "exp": time.Now().Add(2 * time.Minute).Unix(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}
}

// LogoutToken signs the claims of a logout token.
func (p *Provider) LogoutToken(t testing.TB, claims map[string]any) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	key := p.keys[len(p.keys)-1]
	return p.sign(map[string]any{"alg": "RS256", "typ": "logout+jwt", "kid": key.id}, claims, func(text []byte) []byte { return signRSA(key.key, text) })
}

// Deliver sends a logout token to a client as a provider does.
func Deliver(t testing.TB, to, token string) Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, to, strings.NewReader(url.Values{"logout_token": {token}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Answer{token, res.StatusCode, res.Header, string(body)}
}
