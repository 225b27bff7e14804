package authn

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/apitoken"
)

// How a caller is known.
const (
	ViaToken       = "token"
	ViaOIDC        = "oidc"
	ViaSession     = "session"
	ViaCertificate = "certificate"
	ViaProxy       = "proxy"
	ViaBootstrap   = "bootstrap"
)

// Tokens knows API tokens.
type Tokens interface {
	// Token returns the caller of a token by its digest; false if it is not known or no longer valid. It is
	// Unavailable if that cannot be decided.
	Token(digest string) (Caller, bool, error)
	// LookAgain returns when the tokens are known that other processes made before the call.
	LookAgain(ctx context.Context) error
}

// Issuers knows the tokens of OpenID Connect providers.
type Issuers interface {
	// Verify returns the caller of a token; Unauthorized if it is not valid, Unavailable if its provider
	// cannot be asked.
	Verify(ctx context.Context, token string) (Caller, error)
}

// Sessions knows the sessions of browsers.
type Sessions interface {
	// Session returns the caller of the session that a request has a cookie of, and whether it has one. A cookie
	// without a valid session names no caller. The error is Unavailable if that cannot be decided.
	Session(r *http.Request) (c Caller, given bool, err error)
	// Again is Session for a request that is being answered for some time: its session does not end as idle meanwhile.
	Again(r *http.Request) (c Caller, given bool, err error)
}

// Proxy is a gateway that authenticates, and names the user of a request in a header.
type Proxy struct {
	Header string   // empty: none
	Names  []string // of its client certificate: the common name, or a DNS name
}

// Authenticator finds out who sends a request.
type Authenticator struct {
	Tokens   Tokens
	Issuers  Issuers  // nil: none
	Sessions Sessions // nil: none
	Proxy    Proxy
}

// maxBearer is the length of the longest bearer token, in bytes. Longer ones are refused unread.
const maxBearer = 16 << 10

// Authenticate returns who sends a request; the zero Caller if the request has no credential. A wrong
// credential is Unauthorized, also together with a good one; a session with the header Authorization is Invalid. A session
// counts only where neither a client certificate nor a proxy names a user: a browser sends the cookie that the last
// person left in it.
func (a *Authenticator) Authenticate(r *http.Request) (Caller, error) {
	if a.Sessions == nil {
		return a.authenticate(r, noSession)
	}
	return a.authenticate(r, a.Sessions.Session)
}

// Again is Authenticate for a request that is being answered for some time.
func (a *Authenticator) Again(r *http.Request) (Caller, error) {
	if a.Sessions == nil {
		return a.authenticate(r, noSession)
	}
	return a.authenticate(r, a.Sessions.Again)
}

func noSession(*http.Request) (Caller, bool, error) { return Caller{}, false, nil }

func (a *Authenticator) authenticate(r *http.Request, session func(*http.Request) (Caller, bool, error)) (Caller, error) {
	token, given, err := bearer(r.Header)
	if !given {
		c, err := a.certificate(r)
		if err == nil && c.Subject == "" {
			c, _, err = session(r)
		}
		return c, err
	}
	if _, second, _ := session(r); second {
		return Caller{}, errs.New(errs.Invalid, "the request has a session cookie and the header Authorization: send one of them")
	}
	if err != nil {
		return Caller{}, err
	}
	return a.bearer(r.Context(), token)
}

// bearer returns the caller of a bearer token.
func (a *Authenticator) bearer(ctx context.Context, token string) (Caller, error) {
	made := strings.HasPrefix(token, apitoken.Prefix)
	c, known, err := a.Tokens.Token(apitoken.Digest(token))
	if err == nil && !known && made && !apitoken.Valid(token) {
		return Caller{}, errs.New(errs.Unauthorized, "this API token is incomplete or has a typing error: its checksum does not match; copy it again")
	}
	if err == nil && !known && made {
		if err = a.Tokens.LookAgain(ctx); err == nil {
			c, known, err = a.Tokens.Token(apitoken.Digest(token))
		}
	}
	if err != nil || known {
		return c, err
	}
	if made {
		return Caller{}, errs.New(errs.Unauthorized, "this API token is not valid: it was revoked, it has ended, or it was never made here")
	}
	if a.Issuers == nil {
		return Caller{}, errs.New(errs.Unauthorized, "this bearer token is no API token, and no OpenID Connect provider is configured (auth.issuers)")
	}
	return a.Issuers.Verify(ctx, token)
}

// bearer reads the header Authorization.
func bearer(h http.Header) (token string, given bool, err error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", false, nil
	}
	refuse := func(why string) (string, bool, error) {
		return "", true, errs.New(errs.Unauthorized, "the header Authorization "+why)
	}
	if len(values) > 1 {
		return refuse("is given twice")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return refuse("must be: Bearer TOKEN")
	case token == "":
		return refuse("has no token")
	case len(token) > maxBearer:
		return refuse("has a token of more than 16 KiB")
	}
	return token, true, nil
}

// certificate returns the caller that a verified client certificate names, or whom a proxy names; the zero Caller if
// there is none.
func (a *Authenticator) certificate(r *http.Request) (Caller, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Caller{}, nil
	}
	cert := r.TLS.PeerCertificates[0]
	if a.Proxy.Header != "" && a.isProxy(cert) {
		names := r.Header.Values(a.Proxy.Header)
		switch {
		case len(names) == 0:
			return Caller{}, nil
		case len(names) > 1 || !ValidName(names[0]):
			return Caller{}, errs.New(errs.Unauthorized, "the proxy does not name one user in the header "+a.Proxy.Header)
		}
		return User("proxy:", names[0], nil, ViaProxy), nil
	}
	if !ValidName(cert.Subject.CommonName) {
		return Caller{}, errs.New(errs.Unauthorized, "the client certificate has no common name that can be the name of a user")
	}
	c := User("cert:", cert.Subject.CommonName, cert.Subject.Organization, ViaCertificate)
	c.Until = cert.NotAfter
	return c, nil
}

func (a *Authenticator) isProxy(cert *x509.Certificate) bool {
	return slices.Contains(a.Proxy.Names, cert.Subject.CommonName) ||
		slices.ContainsFunc(cert.DNSNames, func(name string) bool { return slices.Contains(a.Proxy.Names, name) })
}
