package oidc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
)

// Logout is what a logout token says (OpenID Connect Back-Channel Logout 1.0): an issuer has ended one sign-in, or all of a person.
// Subject or SignIn is set.
type Logout struct {
	Issuer  string // its name
	Subject string // of the person; empty: not named
	SignIn  string // what the issuer calls the sign-in (sid); empty: all of the person
	Token   string // id of the token (jti)
	Issued  time.Time
}

// logoutEvent is the event that logout tokens report.
const logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

// ReadLogout returns what a logout token says; Unauthorized if it is not valid, Unavailable if the keys of its issuer cannot be read. Whether
// the token was taken before is for the caller to find out.
func (v *Verifier) ReadLogout(ctx context.Context, token string) (Logout, error) {
	if len(token) > maxIDToken {
		return Logout{}, errs.New(errs.Unauthorized, "the logout token has more than "+strconv.Itoa(maxIDToken)+" bytes")
	}
	i := v.issuers[issuerOf(token)]
	if i == nil || i.Web.Redirect == "" {
		return Logout{}, errs.New(errs.Unauthorized, "the logout token is not of an issuer at which browsers sign in here (auth.issuers, web)")
	}
	if !logoutType(token) {
		return Logout{}, i.refusal("it is not of the type logout+jwt (typ)")
	}
	t, err := i.check(ctx, token, i.Web.Client)
	if err != nil {
		return Logout{}, err
	}
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return Logout{}, i.refusal(err.Error())
	}
	out := Logout{Issuer: i.Name, SignIn: text(claims["sid"]), Token: text(claims["jti"]), Issued: t.IssuedAt}
	var events map[string]json.RawMessage
	_, nonce := claims["nonce"]
	_, sid := claims["sid"]
	switch {
	case json.Unmarshal(claims["events"], &events) != nil || !isObject(events[logoutEvent]):
		return Logout{}, i.refusal("it does not report a sign-out (events)")
	case nonce:
		return Logout{}, i.refusal("it has a nonce, as ID tokens have")
	case out.Token == "":
		return Logout{}, i.refusal("it has no id (jti)")
	case out.Issued.Unix() <= 0:
		return Logout{}, i.refusal("it does not say when it was issued (iat)")
	case out.Issued.After(i.now().Add(skew)):
		return Logout{}, i.refusal("it was issued in the future (iat); compare the clocks")
	case t.Expiry.Sub(out.Issued) > maxLifetime+skew:
		return Logout{}, i.refusal("it is valid for more than 24 hours (exp)")
	case sid && out.SignIn == "":
		return Logout{}, i.refusal("its sid is no name")
	case t.Subject == "" && !sid:
		return Logout{}, i.refusal("it names neither a person (sub) nor a sign-in (sid)")
	case t.Subject != "" && !authn.ValidName(t.Subject):
		return Logout{}, i.refusal("its sub is not 1 to 256 printable characters")
	}
	if t.Subject != "" {
		out.Subject = authn.User(i.Prefix, t.Subject, nil, authn.ViaOIDC).Subject
	}
	return out, nil
}

// logoutType reports whether the header of a token allows that it is a logout token: other types are for other uses.
func logoutType(token string) bool {
	first, _, _ := strings.Cut(token, ".")
	data, err := base64.RawURLEncoding.DecodeString(first)
	var header struct {
		Type string `json:"typ"`
	}
	if err != nil || json.Unmarshal(data, &header) != nil {
		return false
	}
	return slices.Contains([]string{"", "jwt", "logout+jwt"}, strings.TrimPrefix(strings.ToLower(header.Type), "application/"))
}

// text returns the value of a claim; empty if it is no text.
func text(claim json.RawMessage) (s string) {
	_ = json.Unmarshal(claim, &s)
	return s
}

func isObject(value json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(value), []byte("{"))
}
