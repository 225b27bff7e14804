package authn_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/apitoken"
)

// known are API tokens by digest.
type known map[string]string

func (k known) Token(digest string) (authn.Caller, bool, error) {
	name, ok := k[digest]
	return authn.Caller{Subject: "token:" + name, Via: authn.ViaToken}, ok, nil
}

func (known) LookAgain(context.Context) error { return nil }

// late knows tokens after it has looked again, or never if err is set.
type late struct {
	known
	looks int
	err   error
}

func (l *late) Token(digest string) (authn.Caller, bool, error) {
	if l.looks == 0 {
		return authn.Caller{}, false, nil
	}
	return l.known.Token(digest)
}

func (l *late) LookAgain(context.Context) error {
	l.looks++
	return l.err
}

// anyone takes the text of a token for the name of a user.
type anyone struct{}

func (anyone) Verify(_ context.Context, token string) (authn.Caller, error) {
	return authn.User("corp:", token, nil, authn.ViaOIDC), nil
}

func request(authorization ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v2/projects", nil)
	for _, a := range authorization {
		r.Header.Add("Authorization", a)
	}
	return r
}

func withCertificate(r *http.Request, name string, organizations ...string) *http.Request {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: organizations}, DNSNames: []string{name + ".example.org"}}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
	return r
}

func TestWhoSends(t *testing.T) {
	t.Parallel()
	token := apitoken.New()
	a := &authn.Authenticator{
		Tokens: known{apitoken.Digest(token): "ci"}, Issuers: anyone{},
		Proxy: authn.Proxy{Header: "X-Forwarded-User", Names: []string{"gateway", "door.example.org"}},
	}
	forwarded := func(r *http.Request, users ...string) *http.Request {
		for _, u := range users {
			r.Header.Add("X-Forwarded-User", u)
		}
		return r
	}
	unverified := withCertificate(request(), "alice")
	unverified.TLS.VerifiedChains = nil
	for name, c := range map[string]struct {
		r    *http.Request
		want string // empty: anonymous; "!": refused
	}{
		"nobody":                     {request(), ""},
		"an API token":               {request("Bearer " + token), "token:ci"},
		"an unknown API token":       {request("Bearer " + apitoken.New()), "!"},
		"a token of a provider":      {request("bearer jwt"), "user:corp:jwt"},
		"another scheme":             {request("Basic YTpi"), "!"},
		"no token":                   {request("Bearer "), "!"},
		"two tokens":                 {request("Bearer "+token, "Bearer "+token), "!"},
		"a token of 16 KiB":          {request("Bearer " + strings.Repeat("a", 16<<10)), "user:corp:" + strings.Repeat("a", 16<<10)},
		"one byte more":              {request("Bearer " + strings.Repeat("a", 16<<10+1)), "!"},
		"a certificate":              {withCertificate(request(), "alice"), "user:cert:alice"},
		"an unverified certificate":  {unverified, ""},
		"a nameless certificate":     {withCertificate(request(), ""), "!"},
		"token before certificate":   {withCertificate(request("Bearer "+token), "alice"), "token:ci"},
		"header without certificate": {forwarded(request(), "root"), ""},
		"header of another":          {forwarded(withCertificate(request(), "alice"), "root"), "user:cert:alice"},
		"header of the proxy":        {forwarded(withCertificate(request(), "gateway"), "bob"), "user:proxy:bob"},
		"proxy by its DNS name":      {forwarded(withCertificate(request(), "door"), "bob"), "user:proxy:bob"},
		"proxy without a user":       {withCertificate(request(), "gateway"), ""},
		"proxy with two users":       {forwarded(withCertificate(request(), "gateway"), "bob", "eve"), "!"},
		"proxy with a bad name":      {forwarded(withCertificate(request(), "gateway"), "b ob"), "!"},
	} {
		got, err := a.Authenticate(c.r)
		if c.want == "!" {
			if !errs.Is(err, errs.Unauthorized) {
				t.Errorf("%s: %+v, %v; want it refused", name, got, err)
			}
			continue
		}
		if err != nil || got.Subject != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got.Subject, err, c.want)
		}
	}
}

// bobs is the cookie of a session of bob, in the browser that the request came from.
type bobs struct{}

func (bobs) Session(*http.Request) (authn.Caller, bool, error) {
	return authn.User("corp:", "bob", nil, authn.ViaSession), true, nil
}

func (b bobs) Again(r *http.Request) (authn.Caller, bool, error) { return b.Session(r) }

// The session of an earlier user of a browser does not become the caller where a certificate or a gateway names one.
func TestWhoSendsWithASession(t *testing.T) {
	t.Parallel()
	a := &authn.Authenticator{Tokens: known{}, Issuers: anyone{}, Sessions: bobs{}, Proxy: authn.Proxy{Header: "X-Forwarded-User", Names: []string{"gateway"}}}
	forwarded := func(r *http.Request, users ...string) *http.Request {
		r.Header["X-Forwarded-User"] = users
		return r
	}
	for name, c := range map[string]struct {
		r    *http.Request
		want string
		err  errs.Kind
	}{
		"the session alone":            {request(), "user:corp:bob", 0},
		"a certificate":                {withCertificate(request(), "alice"), "user:cert:alice", 0},
		"a gateway that names a user":  {forwarded(withCertificate(request(), "gateway"), "alice"), "user:proxy:alice", 0},
		"a gateway that names nobody":  {withCertificate(request(), "gateway"), "user:corp:bob", 0},
		"the header of somebody else":  {forwarded(request(), "alice"), "user:corp:bob", 0},
		"a gateway that names two":     {forwarded(withCertificate(request(), "gateway"), "alice", "eve"), "", errs.Unauthorized},
		"a certificate without a name": {withCertificate(request(), ""), "", errs.Unauthorized},
		"a token":                      {request("Bearer jwt"), "", errs.Invalid},
		"a token through a gateway":    {forwarded(withCertificate(request("Bearer jwt"), "gateway"), "alice"), "", errs.Invalid},
		"a header that is not a token": {request("Basic x"), "", errs.Invalid},
	} {
		for how, ask := range map[string]func(*http.Request) (authn.Caller, error){"at first": a.Authenticate, "again": a.Again} {
			got, err := ask(c.r)
			if got.Subject != c.want || c.want == "" && !errs.Is(err, c.err) || c.want != "" && err != nil {
				t.Errorf("%s, %s: %q, %v; want %q", name, how, got.Subject, err, c.want)
			}
		}
	}
}

func TestACertificateNamesGroups(t *testing.T) {
	t.Parallel()
	a := &authn.Authenticator{Tokens: known{}}
	c, err := a.Authenticate(withCertificate(request(), "alice", "shop", "bad name", "ops", "shop"))
	if err != nil || !slices.Equal(c.Subjects(), []string{"user:cert:alice", "group:cert:ops", "group:cert:shop"}) {
		t.Errorf("subjects = %v, %v", c.Subjects(), err)
	}
}

func TestWithoutProviderTheirTokensAreRefused(t *testing.T) {
	t.Parallel()
	a := &authn.Authenticator{Tokens: known{}}
	if _, err := a.Authenticate(request("Bearer a.b.c")); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("error = %v", err)
	}
}

func TestTokensOfOtherProcessesAreLookedFor(t *testing.T) {
	t.Parallel()
	token := apitoken.New()
	tokens := &late{known: known{apitoken.Digest(token): "ci"}}
	a := &authn.Authenticator{Tokens: tokens, Issuers: anyone{}}
	if c, err := a.Authenticate(request("Bearer alice")); err != nil || c.Subject != "user:corp:alice" || tokens.looks != 0 {
		t.Errorf("a token of a provider: %q, %v after %d looks", c.Subject, err, tokens.looks)
	}
	if c, err := a.Authenticate(request("Bearer " + token)); err != nil || c.Subject != "token:ci" || tokens.looks != 1 {
		t.Errorf("a token made elsewhere: %q, %v after %d looks", c.Subject, err, tokens.looks)
	}
	if _, err := a.Authenticate(request("Bearer " + apitoken.New())); !errs.Is(err, errs.Unauthorized) {
		t.Errorf("a token that nobody made: %v", err)
	}
	tokens.looks = 1
	if _, err := a.Authenticate(request("Bearer " + token[:len(token)-1])); !errs.Is(err, errs.Unauthorized) || !strings.Contains(err.Error(), "checksum") || tokens.looks != 1 {
		t.Errorf("a token without its last character: %v after %d looks", err, tokens.looks)
	}
	tokens.looks, tokens.err = 0, errs.New(errs.Unavailable, "the store is down")
	if _, err := a.Authenticate(request("Bearer " + token)); !errs.Is(err, errs.Unavailable) {
		t.Errorf("while the store is down: %v", err)
	}
}
