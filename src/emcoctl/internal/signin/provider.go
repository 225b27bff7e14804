// Package signin signs a person in with an OpenID Connect provider: in a browser on this machine, or with a
// code that the person enters in a browser elsewhere. It renews and ends the tokens that it gets.
package signin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Issuer is a provider, with the client id that emcoctl has there.
type Issuer struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	Client   string `json:"client"`
	Audience string `json:"audience"`         // that tokens must name
	CAFile   string `json:"caFile,omitempty"` // PEM certificates to trust instead of the system's
}

// Grant is what a provider gives to who has signed in.
type Grant struct {
	Token   client.Token // for the server
	Refresh client.Token // renews the token; empty: nothing does
	Ends    time.Time    // of the token
}

// Bounds of what a provider may answer, and of how long.
const (
	maxAnswer  = 1 << 20 // bytes
	askTimeout = 15 * time.Second
)

// Provider is an issuer that was asked where its endpoints are.
type Provider struct {
	issuer Issuer
	http   *http.Client
	config oauth2.Config
	revoke string // endpoint; empty: none
}

// discovery is the part of a discovery document that is used.
type discovery struct {
	Issuer    string   `json:"issuer"`
	Authorize string   `json:"authorization_endpoint"`
	Token     string   `json:"token_endpoint"`
	Device    string   `json:"device_authorization_endpoint"`
	Revoke    string   `json:"revocation_endpoint"`
	Scopes    []string `json:"scopes_supported"`
}

// Discover asks an issuer where its endpoints are. The error is Invalid for an issuer that cannot be trusted
// with a sign-in.
func Discover(ctx context.Context, i Issuer) (*Provider, error) {
	h, err := newHTTP(i)
	if err != nil {
		return nil, err
	}
	p := &Provider{issuer: i, http: h}
	d, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	for what, endpoint := range map[string]string{"issuer": i.URL, "token_endpoint": d.Token, "authorization_endpoint": d.Authorize, "device_authorization_endpoint": d.Device, "revocation_endpoint": d.Revoke} {
		if endpoint != "" && !Private(endpoint) {
			return nil, p.fault("the %s %s must begin with https://", what, endpoint)
		}
	}
	if d.Token == "" {
		return nil, p.fault("its discovery document has no token_endpoint")
	}
	p.revoke = d.Revoke
	p.config = oauth2.Config{
		ClientID: i.Client, Scopes: []string{"openid"},
		Endpoint: oauth2.Endpoint{AuthURL: d.Authorize, TokenURL: d.Token, DeviceAuthURL: d.Device, AuthStyle: oauth2.AuthStyleInParams},
	}
	for _, scope := range []string{offline, "groups"} {
		if slices.Contains(d.Scopes, scope) {
			p.config.Scopes = append(p.config.Scopes, scope)
		}
	}
	return p, nil
}

// offline is the scope that asks for a refresh token.
const offline = "offline_access"

// newHTTP returns how the issuer is asked: with deadlines, without redirects.
func newHTTP(i Issuer) (*http.Client, error) {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: askTimeout,
		DialContext: (&net.Dialer{Timeout: askTimeout}).DialContext,
	}
	if i.CAFile != "" {
		pool, err := outbound.ReadAuthorities(i.CAFile)
		if err != nil {
			return nil, errs.E(errs.Invalid, "read the issuer's CA file", "", err)
		}
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	return &http.Client{
		Transport: t, Timeout: askTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Private reports whether others cannot read what is sent to an address.
func Private(address string) bool {
	u, err := url.Parse(address)
	return err == nil && outbound.Private(u)
}

func (p *Provider) discover(ctx context.Context) (d discovery, err error) {
	if !Private(p.issuer.URL) {
		return d, p.fault("%s must begin with https://", p.issuer.URL)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.issuer.URL, "/")+"/.well-known/openid-configuration", nil)
	if err != nil {
		return d, p.fault("%s is no URL", p.issuer.URL)
	}
	answer, err := p.http.Do(request)
	if err != nil {
		return d, p.outage(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return d, p.outage(ctx, fmt.Errorf("%s answers %s", request.URL.Redacted(), answer.Status))
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return d, p.outage(ctx, err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, p.fault("its discovery document is not JSON: %v", err)
	}
	if d.Issuer != p.issuer.URL {
		return d, p.fault("it calls itself %q, and the server %q", d.Issuer, p.issuer.URL)
	}
	return d, nil
}

// fault is an error of an issuer whose answers cannot be used.
func (p *Provider) fault(format string, args ...any) error {
	return errs.New(errs.Invalid, "the issuer "+p.issuer.Name+" cannot be used: "+fmt.Sprintf(format, args...))
}

// outage is an error of an issuer that does not answer.
func (p *Provider) outage(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err // its URL may hold a code
	}
	advice := ""
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		advice = "; name its authority with emcoctl login --issuer-ca-file FILE"
	}
	return fmt.Errorf("the issuer %s does not answer: %w%s", p.issuer.Name, err, advice) // no error of the server
}

// refusal explains an error of the library: what the issuer refuses, or that it does not answer.
func (p *Provider) refusal(ctx context.Context, err error) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok:
		return p.outage(ctx, err)
	case refused.ErrorCode == "": // its text would hold the whole answer
		return p.outage(ctx, errors.New("it answers "+refused.Response.Status))
	}
	return p.refused(refused.ErrorCode, refused.ErrorDescription)
}

// refused is the error of a code that RFC 6749 and RFC 8628 name.
func (p *Provider) refused(code, description string) error {
	why := map[string]string{
		"access_denied": "the sign-in was refused there",
		"expired_token": "the code was not entered in time",
		"invalid_grant": "the sign-in has ended there",
	}[code]
	if why == "" {
		why = strings.TrimSpace("it answers " + code + " " + description)
	}
	return errs.New(errs.Unauthorized, "the issuer "+p.issuer.Name+" did not sign you in: "+why)
}

// with returns a context that makes the library use our HTTP client.
func (p *Provider) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, p.http)
}

// audience are the parameters that ask for a token for the server. Providers ignore those that they do not know.
func (p *Provider) audience() []oauth2.AuthCodeOption {
	if p.issuer.Audience == p.issuer.Client {
		return nil
	}
	out := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("audience", p.issuer.Audience)}
	if u, err := url.Parse(p.issuer.Audience); err == nil && u.IsAbs() {
		out = append(out, oauth2.SetAuthURLParam("resource", p.issuer.Audience)) // RFC 8707: a URI
	}
	return out
}

// Refresh renews a grant.
func (p *Provider) Refresh(ctx context.Context, refresh client.Token) (Grant, error) {
	t, err := p.config.TokenSource(p.with(ctx), &oauth2.Token{RefreshToken: refresh.Reveal()}).Token()
	if err != nil {
		return Grant{}, p.refusal(ctx, err)
	}
	return p.grant(t)
}

// Revoke ends a grant, if the provider has an endpoint for that.
func (p *Provider) Revoke(ctx context.Context, refresh client.Token) error {
	if p.revoke == "" || refresh == "" {
		return nil
	}
	form := url.Values{"token": {refresh.Reveal()}, "token_type_hint": {"refresh_token"}, "client_id": {p.issuer.Client}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.revoke, strings.NewReader(form.Encode()))
	if err != nil {
		return p.fault("%s is no URL", p.revoke)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := p.http.Do(request)
	if err != nil {
		return p.outage(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return p.outage(ctx, fmt.Errorf("%s answers %s", p.revoke, answer.Status))
	}
	return nil
}

// grant chooses the token for the server: the access token or the id token, whichever names its audience.
func (p *Provider) grant(t *oauth2.Token) (Grant, error) {
	id, _ := t.Extra("id_token").(string)
	for _, token := range []string{t.AccessToken, id} {
		c, ok := claimsOf(token)
		if ok && c.Issuer == p.issuer.URL && slices.Contains(c.Audience, p.issuer.Audience) {
			return Grant{Token: client.Token(token), Refresh: client.Token(t.RefreshToken), Ends: time.Unix(c.Ends, 0)}, nil
		}
	}
	return Grant{}, errs.New(errs.Unauthorized, fmt.Sprintf("the issuer %s gave no token for the audience %s: let it add that audience to the tokens of the client %s",
		p.issuer.Name, p.issuer.Audience, p.issuer.Client))
}

// claims are the statements of a token. The server checks its signature; here they choose among tokens of the provider.
type claims struct {
	Issuer   string   `json:"iss"`
	Audience audience `json:"aud"`
	Ends     int64    `json:"exp"`
}

// audience is one name, or a list of them.
type audience []string

// UnmarshalJSON reads both forms.
func (a *audience) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// claimsOf reads a token; false if it has no claims that can be read.
func claimsOf(token string) (c claims, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	return c, err == nil && json.Unmarshal(text, &c) == nil
}
