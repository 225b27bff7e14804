package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
)

// Web is how browsers sign in at an issuer.
type Web struct {
	Client   string                 // id of EMCO at the issuer
	Secret   func() (string, error) // of the client; nil: it is a public one
	Redirect string                 // the issuer sends browsers back to this URL of EMCO; empty: browsers do not sign in there

	SignedOut string // the issuer sends browsers that have signed out there to this URL of EMCO; empty: they stay there
}

// Challenge binds the end of a sign-in to its beginning. Only the browser that began keeps it.
type Challenge struct {
	State    string `json:"state"`    // comes back in the URL
	Nonce    string `json:"nonce"`    // comes back in the token
	Verifier string `json:"verifier"` // of PKCE (RFC 7636): the code is worthless without it
}

// NewChallenge returns one that cannot be guessed.
func NewChallenge() Challenge { return Challenge{rand.Text(), rand.Text(), oauth2.GenerateVerifier()} }

// Answer is what an issuer sends back with the browser.
type Answer struct {
	State, Code, Issuer string
	Error               string // why it did not sign the person in
}

// ReadAnswer reads the answer from the query of the callback URL.
func ReadAnswer(q url.Values) (Answer, error) {
	for _, name := range []string{"state", "code", "iss", "error"} {
		if len(q[name]) > 1 {
			return Answer{}, errs.New(errs.Unauthorized, "the answer of the issuer has "+name+" twice; begin the sign-in again")
		}
	}
	return Answer{q.Get("state"), q.Get("code"), q.Get("iss"), q.Get("error")}, nil
}

// endpoints are where a provider lets browsers sign in.
type endpoints struct {
	oauth2.Endpoint
	namesItself bool     // in answers (RFC 9207)
	scopes      []string // that EMCO asks for
	signOut     string   // where browsers sign out; empty: nowhere
}

// private reports whether others cannot read what is sent there.
func (e endpoints) private() bool {
	return !slices.ContainsFunc([]string{e.AuthURL, e.TokenURL}, func(text string) bool {
		u, err := url.Parse(text)
		return err != nil || !outbound.Private(u)
	})
}

// groupsScope has some providers send the groups of a person.
const groupsScope = "groups"

// maxIDToken is the length of the longest ID token, in bytes.
const maxIDToken = 16 << 10

// SignInURL returns the page of an issuer where a person signs in.
func (v *Verifier) SignInURL(ctx context.Context, name string, c Challenge) (string, error) {
	i, err := v.web(name)
	if err != nil {
		return "", err
	}
	config, err := i.oauth(ctx)
	if err != nil {
		return "", err
	}
	return config.AuthCodeURL(c.State, oauth2.S256ChallengeOption(c.Verifier), goidc.Nonce(c.Nonce)), nil
}

// SignOutURL returns the page of an issuer where a browser signs out (OpenID Connect RP-Initiated Logout); empty if the issuer
// has none, or cannot be asked. The token is the ID token of the sign-in, so that the issuer need not ask which one is meant; empty if it
// is not known.
func (v *Verifier) SignOutURL(ctx context.Context, name, token string) string {
	i, err := v.web(name)
	if err != nil {
		return ""
	}
	if _, err := i.discover(ctx); err != nil {
		return ""
	}
	page, err := url.Parse(i.endpoints().signOut)
	if err != nil || page.Host == "" || !outbound.Private(page) {
		return ""
	}
	q := page.Query()
	q.Set("client_id", i.Web.Client)
	if token != "" {
		q.Set("id_token_hint", token)
	}
	if i.Web.SignedOut != "" {
		q.Set("post_logout_redirect_uri", i.Web.SignedOut)
	}
	page.RawQuery = q.Encode()
	return page.String()
}

// SignedIn is who signed in with a browser.
type SignedIn struct {
	Caller  authn.Caller
	IDToken string
	ID      string    // what the issuer calls the sign-in (sid); empty: it gives no name
	Issued  time.Time // of the ID token
}

// SignIn ends a sign-in that began with the challenge. It returns who signed in: Unauthorized if the answer, or
// the token that the issuer gives for it, is wrong; Unavailable if the issuer does not answer.
func (v *Verifier) SignIn(ctx context.Context, name string, c Challenge, a Answer) (SignedIn, error) {
	i, err := v.web(name)
	if err != nil {
		return SignedIn{}, err
	}
	config, err := i.oauth(ctx)
	if err != nil {
		return SignedIn{}, err
	}
	if err := i.checkAnswer(c, a); err != nil {
		return SignedIn{}, err
	}
	t, err := config.Exchange(goidc.ClientContext(ctx, i.client), a.Code, oauth2.VerifierOption(c.Verifier))
	if err != nil {
		return SignedIn{}, i.exchangeError(err)
	}
	token, _ := t.Extra("id_token").(string)
	if token == "" || len(token) > maxIDToken {
		return SignedIn{}, i.refusal("the issuer sent no ID token of at most " + strconv.Itoa(maxIDToken) + " bytes")
	}
	id, err := i.check(ctx, token, i.Web.Client)
	if err != nil {
		return SignedIn{}, err
	}
	var claims struct {
		Party string          `json:"azp"`
		ID    json.RawMessage `json:"sid"`
	}
	if err := id.Claims(&claims); err != nil {
		return SignedIn{}, i.refusal(err.Error())
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(c.Nonce)) != 1:
		return SignedIn{}, i.refusal("it belongs to another sign-in (nonce)")
	case claims.Party != "" && claims.Party != i.Web.Client, claims.Party == "" && len(id.Audience) > 1:
		return SignedIn{}, i.refusal("it was given to another client (azp)")
	}
	out := SignedIn{IDToken: token, ID: text(claims.ID), Issued: id.IssuedAt}
	if out.Issued.Unix() <= 0 {
		out.Issued = i.now()
	}
	out.Caller, err = i.caller(id)
	return out, err
}

// web returns an issuer at which browsers sign in.
func (v *Verifier) web(name string) (*issuer, error) {
	for _, i := range v.issuers {
		if i.Name == name && i.Web.Redirect != "" {
			return i, nil
		}
	}
	return nil, errs.New(errs.NotFound, "browsers do not sign in at an issuer "+strconv.Quote(name))
}

// oauth returns how EMCO speaks to the issuer as a client.
func (i *issuer) oauth(ctx context.Context) (*oauth2.Config, error) {
	at, err := i.signInEndpoints(ctx)
	if err != nil {
		return nil, err
	}
	config := &oauth2.Config{ClientID: i.Web.Client, RedirectURL: i.Web.Redirect, Scopes: at.scopes, Endpoint: at.Endpoint}
	if i.Web.Secret == nil {
		config.Endpoint.AuthStyle = oauth2.AuthStyleInParams
		return config, nil
	}
	secret, err := i.Web.Secret()
	if err != nil {
		return nil, errs.New(errs.Unavailable, fmt.Sprintf("the secret of EMCO at the issuer %s: %v", i.Name, err))
	}
	config.ClientSecret = secret
	return config, nil
}

// checkAnswer refuses an answer to another sign-in, of another issuer, or a refusal.
func (i *issuer) checkAnswer(c Challenge, a Answer) error {
	named := i.endpoints().namesItself
	why := ""
	switch {
	case c.State == "" || subtle.ConstantTimeCompare([]byte(a.State), []byte(c.State)) != 1:
		why = "it belongs to another sign-in (state)"
	case a.Issuer != "" && a.Issuer != i.URL, a.Issuer == "" && named:
		why = "it does not name this issuer (iss)"
	case a.Error != "":
		why = "it says " + strconv.Quote(a.Error[:min(len(a.Error), 64)])
	case a.Code == "":
		why = "it has no code"
	default:
		return nil
	}
	return errs.New(errs.Unauthorized, "the answer of the issuer "+i.Name+" is refused: "+why+"; begin the sign-in again")
}

// exchangeError is why the issuer gave no token for a code. It leaves out the rest of the answer, and the text of
// errors that may hold the code or the secret: of one of the connection, the inner error holds neither.
func (i *issuer) exchangeError(err error) error {
	said, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case ok && said.ErrorCode == "invalid_grant":
		return errs.New(errs.Unauthorized, "the issuer "+i.Name+" does not take the code of this sign-in: it was used already, or is too old; begin the sign-in again")
	case ok && said.ErrorCode != "":
		return errs.New(errs.Unavailable, "the issuer "+i.Name+" gives EMCO no token: "+strconv.Quote(said.ErrorCode[:min(len(said.ErrorCode), 64)])+"; compare auth.issuers, web, with what is registered there")
	case ok && said.Response != nil:
		return errs.New(errs.Unavailable, "the issuer "+i.Name+" gives EMCO no token: it answers "+strconv.Itoa(said.Response.StatusCode)+" "+http.StatusText(said.Response.StatusCode))
	}
	text := "the issuer " + i.Name + " gives EMCO no token"
	if failed, ok := errors.AsType[*url.Error](err); ok {
		text += ": " + failed.Err.Error()
	}
	return errs.New(errs.Unavailable, text+"; try again in a moment")
}

// Prefixes returns what begins the subjects of people, by issuers at which browsers sign in.
func (v *Verifier) Prefixes() map[string]string {
	out := map[string]string{}
	for _, i := range v.issuers {
		if i.Web.Redirect != "" {
			out[i.Name] = i.Prefix
		}
	}
	return out
}

// style is how a client with a secret shows it: as HTTP authentication, unless the provider takes it in the body only.
func style(methods []string) oauth2.AuthStyle {
	if len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}
