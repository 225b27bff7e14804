// Package oidc is EMCO's client of OpenID Connect providers: it verifies their tokens (oidc.go,
// keys.go), signs browsers in and out (browser.go) and reads logout tokens (logout.go).
package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/tlsfiles"
)

// Issuer is a provider whose tokens are accepted.
type Issuer struct {
	Name        string // in subjects and messages
	URL         string
	Audience    string // that tokens must name
	CA          string // file with certificate authorities; empty: those of the system
	GroupsClaim string // empty: groups
	Prefix      string // of names in subjects; empty: the name and a colon
	Web         Web
}

// Bounds of what is accepted and kept.
const (
	skew        = 30 * time.Second // that clocks may differ
	maxLifetime = 24 * time.Hour   // of a token
	maxGroups   = 256
	keepFor     = 5 * time.Minute // that a verified token is not verified again
	maxKept     = 10_000          // verified tokens
	askTimeout  = 10 * time.Second
	retryPause  = 10 * time.Second // after a question to a provider, before the next one

	askAgain      = 4 * time.Hour   // after which a provider is asked again where its endpoints are
	askAgainPause = 5 * time.Minute // between two such questions, while it does not answer
)

// Verifier verifies the tokens of some issuers. It asks a provider when the first token of it arrives, so a
// provider that is down delays no start.
type Verifier struct {
	issuers map[string]*issuer // by URL
	now     func() time.Time

	mu   sync.Mutex
	kept map[[sha256.Size]byte]keptToken // guarded by mu
}

type keptToken struct {
	caller authn.Caller
	until  time.Time
}

// New returns a verifier. The clock now is for tests; nil is time.Now.
func New(issuers []Issuer, now func() time.Time) (*Verifier, error) {
	if now == nil {
		now = time.Now
	}
	v := &Verifier{issuers: map[string]*issuer{}, now: now, kept: map[[sha256.Size]byte]keptToken{}}
	for _, i := range issuers {
		client, err := i.client()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		if i.Prefix == "" {
			i.Prefix = i.Name + ":"
		}
		if i.GroupsClaim == "" {
			i.GroupsClaim = "groups"
		}
		v.issuers[i.URL] = newIssuer(i, client, now)
	}
	return v, nil
}

// client returns how the provider is asked: with a deadline, without redirects.
func (i Issuer) client() (*http.Client, error) {
	u, err := url.Parse(i.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%q is no URL of an issuer", i.URL)
	}
	if !outbound.Private(u) {
		return nil, fmt.Errorf("%s: an issuer needs https", i.URL)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = (tlsfiles.Client{CA: i.CA}).Config(); err != nil {
		return nil, err
	}
	transport.DialContext = (&net.Dialer{Timeout: askTimeout}).DialContext
	return &http.Client{
		Transport: transport, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Verify returns the caller of a token; Unauthorized if it is not valid, Unavailable if the keys of its
// provider cannot be read.
func (v *Verifier) Verify(ctx context.Context, token string) (authn.Caller, error) {
	digest := sha256.Sum256([]byte(token))
	if c, known := v.known(digest); known {
		return c, nil
	}
	i := v.issuers[issuerOf(token)]
	if i == nil {
		return authn.Caller{}, errs.New(errs.Unauthorized, "this bearer token is neither an API token nor a token of a configured issuer")
	}
	c, err := i.verify(ctx, token)
	if err != nil {
		return authn.Caller{}, err
	}
	v.keep(digest, c)
	return c, nil
}

func (v *Verifier) known(digest [sha256.Size]byte) (authn.Caller, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k, known := v.kept[digest]
	if !known || !v.now().Before(k.until) {
		return authn.Caller{}, false
	}
	return k.caller, true
}

func (v *Verifier) keep(digest [sha256.Size]byte, c authn.Caller) {
	until := v.now().Add(keepFor)
	if c.Until.Before(until) {
		until = c.Until
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.kept) >= maxKept {
		clear(v.kept)
	}
	v.kept[digest] = keptToken{c, until}
}

// issuerOf returns the claim iss of an unverified token; empty if it has none.
func issuerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return ""
	}
	return claims.Issuer
}

// issuer is a provider and what is known of it.
type issuer struct {
	Issuer
	client    *http.Client
	now       func() time.Time
	discovery question // where its keys and endpoints are

	mu    sync.Mutex
	keys  *keySet   // nil: the provider was not asked with success; guarded by mu
	found time.Time // last discovery with success; guarded by mu
	at    endpoints // guarded by mu
}

func newIssuer(of Issuer, client *http.Client, now func() time.Time) *issuer {
	i := &issuer{Issuer: of, client: client, now: now}
	i.discovery = question{ask: i.ask, now: now}
	return i
}

// verify checks signature, issuer, audience and times of a token that a program sends, and reads who it is.
func (i *issuer) verify(ctx context.Context, token string) (authn.Caller, error) {
	t, err := i.check(ctx, token, i.Audience)
	if err != nil {
		return authn.Caller{}, err
	}
	return i.caller(t)
}

// check checks a token for an audience.
func (i *issuer) check(ctx context.Context, token, audience string) (*goidc.IDToken, error) {
	keys, err := i.discover(ctx)
	if err != nil {
		return nil, errs.New(errs.Unavailable, fmt.Sprintf("the issuer %s cannot be asked for its keys: %v", i.Name, err))
	}
	signature := &signatures{keys: keys}
	checked := goidc.NewVerifier(i.URL, signature, &goidc.Config{
		ClientID: audience, SupportedSigningAlgs: algorithms(), Now: func() time.Time { return i.now().Add(-skew) },
	})
	t, err := checked.Verify(ctx, token)
	if signature.outage != nil {
		return nil, errs.New(errs.Unavailable, fmt.Sprintf("the issuer %s cannot be asked for its keys: %v", i.Name, signature.outage))
	}
	if err != nil {
		return nil, i.refusal(err.Error())
	}
	return t, nil
}

func (i *issuer) refusal(why string) error {
	return errs.New(errs.Unauthorized, "the token of issuer "+i.Name+" is not valid: "+why)
}

// caller reads the claims of a token whose signature is right.
func (i *issuer) caller(t *goidc.IDToken) (authn.Caller, error) {
	begin := t.IssuedAt
	if begin.Unix() <= 0 {
		begin = i.now()
	}
	switch {
	case !authn.ValidName(t.Subject):
		return authn.Caller{}, i.refusal("its sub is not 1 to 256 printable characters")
	case begin.After(i.now().Add(skew)):
		return authn.Caller{}, i.refusal("it was issued in the future; compare the clocks")
	case t.Expiry.Sub(begin) > maxLifetime+skew:
		return authn.Caller{}, i.refusal("it is valid for more than 24 hours")
	}
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return authn.Caller{}, i.refusal(err.Error())
	}
	if _, event := claims["events"]; event { // such as a logout token, which names a person and this audience, too
		return authn.Caller{}, i.refusal("it reports events, and is no credential")
	}
	groups, err := readGroups(claims[i.GroupsClaim])
	if err != nil {
		return authn.Caller{}, i.refusal("the claim " + i.GroupsClaim + " " + err.Error())
	}
	c := authn.User(i.Prefix, t.Subject, groups, authn.ViaOIDC)
	c.Until = t.Expiry.Add(skew)
	return c, nil
}

// readGroups reads a claim that is a name or a list of names; none if it is missing.
func readGroups(text json.RawMessage) ([]string, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(text, &one) == nil {
		return []string{one}, nil
	}
	var many []string
	if json.Unmarshal(text, &many) != nil {
		return nil, errors.New("is neither a name nor a list of names")
	}
	if len(many) > maxGroups {
		return nil, fmt.Errorf("has more than %d groups", maxGroups)
	}
	return many, nil
}

// discover returns the keys of the provider. It asks the provider where they are, at first and again after some hours;
// what was found counts until another answer comes.
func (i *issuer) discover(ctx context.Context) (*keySet, error) {
	i.mu.Lock()
	known, old := i.keys != nil, i.now().Sub(i.found) >= askAgain
	i.mu.Unlock()
	if !known {
		if err := i.discovery.wait(ctx); err != nil {
			return nil, err
		}
	} else if old {
		i.discovery.try(ctx, askAgainPause)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys, nil
}

// ask asks the provider for its discovery document.
func (i *issuer) ask(ctx context.Context) error {
	p, err := goidc.NewProvider(goidc.ClientContext(ctx, i.client), i.URL)
	var at struct {
		Keys    string   `json:"jwks_uri"`
		Issuer  bool     `json:"authorization_response_iss_parameter_supported"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
		Scopes  []string `json:"scopes_supported"`
		SignOut string   `json:"end_session_endpoint"`
	}
	if err == nil {
		err = p.Claims(&at)
	}
	if err == nil && at.Keys == "" {
		err = errors.New("its discovery document has no jwks_uri")
	}
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.found = i.now()
	i.at = endpoints{Endpoint: p.Endpoint(), namesItself: at.Issuer, signOut: at.SignOut, scopes: []string{goidc.ScopeOpenID}}
	i.at.AuthStyle = style(at.Methods)
	if slices.Contains(at.Scopes, groupsScope) {
		i.at.scopes = append(i.at.scopes, groupsScope)
	}
	if i.keys == nil || i.keys.url != at.Keys {
		i.keys = newKeySet(at.Keys, i.client, i.now)
	}
	return nil
}

// signInEndpoints returns where browsers sign in. A document without endpoints is read again: it may have been repaired.
func (i *issuer) signInEndpoints(ctx context.Context) (endpoints, error) {
	unasked := func(err error) error {
		return errs.New(errs.Unavailable, fmt.Sprintf("the issuer %s cannot be asked where people sign in: %v", i.Name, err))
	}
	if _, err := i.discover(ctx); err != nil {
		return endpoints{}, unasked(err)
	}
	if !i.endpoints().private() {
		if err := i.discovery.wait(ctx); err != nil {
			return endpoints{}, unasked(err)
		}
	}
	at := i.endpoints()
	if !at.private() {
		return endpoints{}, errs.New(errs.Unavailable, "the discovery document of the issuer "+i.Name+" has no authorization_endpoint and token_endpoint with https")
	}
	return at, nil
}

func (i *issuer) endpoints() endpoints {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.at
}
