package identity

import (
	"context"
	"mime"
	"net/http"
	"net/url"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/oidc"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxLogoutBody is the longest report of a sign-out, in bytes. It is a token with few claims.
const maxLogoutBody = 32 << 10

// The errors of reports of sign-outs. Issuers only log them.
const (
	invalidRequest = "invalid_request"
	unavailable    = "temporarily_unavailable"
)

// endedByIssuer ends the sessions of sign-ins that an issuer has ended (OpenID Connect Back-Channel Logout 1.0). After the answer
// they are of no use at any process. What is invalid or fails is answered 400.
func (s *Sessions) endedByIssuer(w http.ResponseWriter, r *http.Request) error {
	if err := s.check(); err != nil {
		return err
	}
	l, err := s.readLogout(w, r)
	if err == nil {
		ctx := context.WithoutCancel(r.Context()) // an issuer that does not wait has still ended them
		err = s.Grants.EndSignIns(ctx, grants.Logout{
			SignIn: grants.SignIn{Issuer: l.Issuer, ID: l.SignIn, Issued: l.Issued}, Token: l.Token, Subject: l.Subject,
		})
	}
	switch errs.KindOf(err) {
	case errs.Unauthorized:
		return s.Guard.RefuseLogout(r, &web.OAuth{Code: invalidRequest, Err: err})
	case errs.Unavailable:
		return &web.OAuth{Code: unavailable, Err: err}
	}
	if err != nil {
		return err
	}
	s.Guard.SignedOutBy(r, l.Issuer, authn.Caller{Subject: l.Subject, Via: authn.ViaOIDC})
	w.WriteHeader(http.StatusOK)
	return nil
}

// readLogout reads the logout token in a request; Unauthorized if there is none. Other parameters mean nothing.
func (s *Sessions) readLogout(w http.ResponseWriter, r *http.Request) (oidc.Logout, error) {
	const form = "application/x-www-form-urlencoded"
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != form {
		return oidc.Logout{}, errs.New(errs.Unauthorized, "a report of a sign-out is of the type "+form)
	}
	body, err := web.Body(w, r, maxLogoutBody)
	if errs.Is(err, errs.TooLarge) {
		return oidc.Logout{}, errs.New(errs.Unauthorized, err.Error())
	}
	if err != nil {
		return oidc.Logout{}, err
	}
	given, err := url.ParseQuery(string(body))
	if err != nil || len(given["logout_token"]) != 1 {
		return oidc.Logout{}, errs.New(errs.Unauthorized, "a report of a sign-out has one parameter logout_token")
	}
	return s.Issuers.ReadLogout(r.Context(), given.Get("logout_token"))
}
