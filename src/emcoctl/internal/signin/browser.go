package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/oauth2"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// patience is how long a person may take to sign in.
const patience = 5 * time.Minute

// callbackPath is where the provider sends the browser back to.
const callbackPath = "/callback"

// HasBrowser reports whether people can sign in with Browser.
func (p *Provider) HasBrowser() bool { return p.config.Endpoint.AuthURL != "" }

// Browser signs a person in with a browser on this machine: the authorization code flow with PKCE (RFC 7636),
// which ends at a port of 127.0.0.1 (RFC 8252); 0 is any free one. Show receives the address to open.
func (p *Provider) Browser(ctx context.Context, port int, show func(address string)) (Grant, error) {
	if !p.HasBrowser() {
		return Grant{}, p.fault("its discovery document has no authorization_endpoint")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return Grant{}, errs.E(errs.Invalid, "wait for the browser", "", err)
	}
	config := p.config
	config.RedirectURL = "http://" + listener.Addr().String() + callbackPath
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	options := append(p.audience(), oauth2.S256ChallengeOption(verifier))
	if len(config.Scopes) > 1 && config.Scopes[1] == offline {
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent")) // OpenID Connect Core 11 asks for it
	}
	c := &callback{provider: p, state: state, answers: make(chan callbackAnswer, 1)}
	server := &http.Server{Handler: c, ReadHeaderTimeout: askTimeout, WriteTimeout: askTimeout, MaxHeaderBytes: 64 << 10}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // so that the browser shows the page
		defer cancel()
		_ = server.Shutdown(ended)
		<-served
	}()
	show(config.AuthCodeURL(state, options...))
	code, err := c.wait(ctx)
	if err != nil {
		return Grant{}, err
	}
	t, err := config.Exchange(p.with(ctx), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return Grant{}, p.refusal(ctx, err)
	}
	return p.grant(t)
}

// callbackAnswer is what the provider sends with the browser.
type callbackAnswer struct {
	code string
	err  error
}

// callback is the page where the browser returns. It takes one answer; requests without its state
// change nothing, so that another page cannot end the sign-in.
type callback struct {
	provider *Provider
	state    string
	answers  chan callbackAnswer
}

func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	q := r.URL.Query()
	if r.Method != http.MethodGet || r.URL.Path != callbackPath || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(c.state)) != 1 {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "This page belongs to no sign-in.\n")
		return
	}
	a := callbackAnswer{code: q.Get("code")}
	switch issuer := q.Get("iss"); {
	case issuer != "" && issuer != c.provider.issuer.URL: // RFC 9207
		a.err = c.provider.fault("another issuer answered: %q", issuer)
	case q.Get("error") != "":
		a.err = c.provider.refused(q.Get("error"), q.Get("error_description"))
	case a.code == "":
		a.err = c.provider.fault("it sent no code")
	}
	page := "emcoctl has received the sign-in. You can close this page.\n"
	if a.err != nil {
		page = "The sign-in failed; emcoctl shows the reason. You can close this page.\n"
	}
	_, _ = io.WriteString(w, page)
	select {
	case c.answers <- a:
	default: // it has an answer
	}
}

func (c *callback) wait(ctx context.Context) (code string, err error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case a := <-c.answers:
		return a.code, a.err
	case <-limit.C:
		return "", fmt.Errorf("there was no sign-in within %s: %w", patience, context.DeadlineExceeded)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Verification is what a person does elsewhere.
type Verification struct {
	URL      string // to open
	Code     string // to enter there
	Complete string // a URL that contains the code; may be empty
}

// HasDevice reports whether people can sign in with Device.
func (p *Provider) HasDevice() bool { return p.config.Endpoint.DeviceAuthURL != "" }

// Device signs a person in who opens a page elsewhere and enters a code there (RFC 8628).
func (p *Provider) Device(ctx context.Context, show func(Verification)) (Grant, error) {
	if !p.HasDevice() {
		return Grant{}, p.fault("its discovery document has no device_authorization_endpoint")
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, err := p.config.DeviceAuth(p.with(limited), p.audience()...)
	if err != nil {
		return Grant{}, p.refusal(ctx, err)
	}
	if !Private(a.VerificationURI) || a.VerificationURIComplete != "" && !Private(a.VerificationURIComplete) {
		return Grant{}, p.fault("the page %s must begin with https://", a.VerificationURI)
	}
	a.Interval = min(max(a.Interval, 0), int64(patience/time.Second)) // the library ends the program for a negative one
	show(Verification{URL: a.VerificationURI, Code: a.UserCode, Complete: a.VerificationURIComplete})
	t, err := p.config.DeviceAccessToken(p.with(limited), a)
	switch {
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return Grant{}, fmt.Errorf("there was no sign-in in time: %w", context.DeadlineExceeded)
	case err != nil:
		return Grant{}, p.refusal(ctx, err)
	}
	return p.grant(t)
}
