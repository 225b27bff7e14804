package identity

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/access"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/oidc"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/websession"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Sessions signs people in who use browsers.
type Sessions struct {
	Keeper  *websession.Keeper
	Issuers *oidc.Verifier
	Grants  *grants.Cache
	Guard   *access.Guard
	Most    int // sessions of one person
}

const (
	maxReturn     = 1024         // bytes of the path that a browser opens in the end
	defaultReturn = "/reference" // the page that describes the API
)

// mount adds the routes, also without sessions: then they answer so.
func (s *Sessions) mount(r *mux.Router) {
	open := authz.Permission{Verb: authz.Public, Type: "auth"}
	web.Handle(r, http.MethodGet, websession.LoginPath, open, s.login)
	web.HandleStoring(r, http.MethodGet, websession.CallbackPath, open, s.callback)
	web.HandleFreeing(r, http.MethodPost, websession.LogoutPath, open, web.WithDryRun(s.logout))
	web.HandleFreeing(r, http.MethodPost, websession.BackChannelPath, open, s.endedByIssuer)
}

// check refuses what needs sessions where there are none.
func (s *Sessions) check() error {
	if s == nil {
		return errs.New(errs.NotFound, "browsers do not sign in here: no issuer in auth.issuers has web")
	}
	return nil
}

// login sends the browser to the page of an issuer.
func (s *Sessions) login(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if err := web.CheckQuery(q, "issuer", "return"); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if c := authn.From(r.Context()); c.Subject != "" {
		return errs.New(errs.Invalid, "this request comes from "+c.Subject+" (by "+c.Via+"), so a session of the browser would not count: sign in without that, or not at all")
	}
	issuer, err := s.issuer(q.Get("issuer"))
	if err != nil {
		return err
	}
	to, err := returnPath(q.Get("return"))
	if err != nil {
		return err
	}
	if err := s.Guard.CountSignIn(r); err != nil {
		return err
	}
	former, err := s.Keeper.Read(r)
	if err != nil {
		return err
	}
	begun := websession.SignIn{Challenge: oidc.NewChallenge(), Issuer: issuer, Return: to}
	if former.ID != "" {
		begun.Former = &websession.Former{Subject: former.Subject, ID: former.ID}
	}
	page, err := s.Issuers.SignInURL(r.Context(), issuer, begun.Challenge)
	if err == nil {
		err = s.Keeper.Begin(w, r, begun)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, page, http.StatusSeeOther)
	return nil
}

// issuer returns the name of the issuer to sign in at: the one that was asked for, or the only one.
func (s *Sessions) issuer(asked string) (string, error) {
	var names []string
	for name := range s.Keeper.Prefixes {
		names = append(names, name)
	}
	slices.Sort(names)
	switch {
	case slices.Contains(names, asked):
		return asked, nil
	case asked == "" && len(names) == 1:
		return names[0], nil
	}
	return "", errs.New(errs.Invalid, "Invalid parameter issuer: give one of "+strings.Join(names, ", "))
}

// returnPath checks the path that the browser opens after its sign-in: every browser must resolve it to
// this origin.
func returnPath(text string) (string, error) {
	if text == "" {
		return defaultReturn, nil
	}
	u, err := url.Parse(text)
	if err != nil || len(text) > maxReturn || !strings.HasPrefix(text, "/") || strings.ContainsAny(text, `\`) || u.Host != "" || u.Scheme != "" || u.User != nil ||
		strings.TrimSuffix(u.Path, "/") != strings.TrimSuffix(path.Clean(u.Path), "/") {
		return "", errs.New(errs.Invalid, "Invalid parameter return: it must be a clean path of this server, such as /v2/projects")
	}
	return u.String(), nil
}

// callback ends a sign-in, and gives the browser its session.
func (s *Sessions) callback(w http.ResponseWriter, r *http.Request) error {
	if err := s.check(); err != nil {
		return err
	}
	w.Header().Set("Referrer-Policy", "no-referrer") // the URL has the code
	answer, begun, err := s.begun(w, r)
	if err != nil {
		if limit := s.Guard.CountSignIn(r); limit != nil {
			return limit
		}
		return s.Guard.RefuseSignIn(w, r, authn.Caller{}, err)
	}
	if err := s.Guard.CountAnswer(answer.State); err != nil {
		return err
	}
	caller, session, err := s.signIn(r, begun, answer)
	if err != nil {
		return s.Guard.RefuseSignIn(w, r, caller, err)
	}
	http.SetCookie(w, session.cookie)
	if s.Issuers.SignOutURL(r.Context(), begun.Issuer, "") != "" {
		s.Keeper.KeepToken(w, session.Session, session.token)
	}
	s.Guard.SignedIn(r, caller)
	return landing(w, begun.Return)
}

// begun returns the issuer's answer, and the sign-in of this browser that it belongs to.
func (s *Sessions) begun(w http.ResponseWriter, r *http.Request) (oidc.Answer, websession.SignIn, error) {
	answer, err := oidc.ReadAnswer(r.URL.Query())
	if err != nil {
		return answer, websession.SignIn{}, err
	}
	begun, ok := s.Keeper.Take(w, r, answer.State)
	if !ok {
		err = errs.New(errs.Unauthorized, "this browser has not begun this sign-in here in the last ten minutes, or has ended it already; begin at "+websession.LoginPath)
	}
	return answer, begun, err
}

// newSession is a session that is stored, and what the browser keeps of it.
type newSession struct {
	websession.Session
	cookie *http.Cookie
	token  string // the ID token
}

// signIn checks the issuer's answer and stores the session. It returns the caller also with an error, if it is known.
func (s *Sessions) signIn(r *http.Request, begun websession.SignIn, answer oidc.Answer) (caller authn.Caller, session newSession, err error) {
	person, err := s.Issuers.SignIn(r.Context(), begun.Issuer, begun.Challenge, answer)
	if err != nil {
		return person.Caller, session, err
	}
	caller, session.token = person.Caller, person.IDToken
	session.Session = s.Keeper.New(begun.Issuer, caller)
	caller.Via, caller.Until = authn.ViaSession, s.Keeper.Ends(session.Session)
	if session.cookie, err = s.Keeper.Cookie(session.Session); err != nil {
		return caller, session, err
	}
	ctx := context.WithoutCancel(r.Context()) // a browser that leaves does not keep its former session
	if f := begun.Former; f != nil {
		if err := s.Grants.EndSession(ctx, f.Subject, f.ID); err != nil {
			return caller, session, err
		}
	}
	of := grants.SignIn{Issuer: begun.Issuer, ID: person.ID, Issued: person.Issued}
	return caller, session, s.Grants.BeginSession(ctx, caller.Subject, session.ID, of, caller.Until, s.Most)
}

// landing is a page that opens the next one. A redirect would not do: its request would be one of the
// issuer's page, and go without the session.
func landing(w http.ResponseWriter, to string) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	to = html.EscapeString(to)
	_, err := fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Signed in</title><meta http-equiv=\"refresh\" content=\"0; url=%s\"></head>\n<body><p>You are signed in. <a href=\"%s\">Go on</a></p></body></html>\n", to, to)
	return err
}

// logout ends the session of the browser, or all of its person. With provider=true it answers where the browser also signs out at the
// issuer, if the issuer has such a page.
func (s *Sessions) logout(w http.ResponseWriter, r *http.Request, dry bool) error {
	q := r.URL.Query()
	if err := web.CheckQuery(q, "dryRun", "everywhere", "provider"); err != nil {
		return err
	}
	for _, name := range []string{"everywhere", "provider"} {
		if v := q.Get(name); q.Has(name) && v != "true" && v != "false" {
			return errs.New(errs.Invalid, "Invalid parameter "+name+": it is true or false")
		}
	}
	everywhere := q.Get("everywhere")
	if err := s.check(); err != nil {
		return err
	}
	session, err := s.Keeper.Read(r)
	if err == nil && session.ID == "" {
		err = s.Guard.CountSignIn(r)
	}
	if err != nil {
		return err
	}
	if session.ID == "" && everywhere == "true" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="emco"`)
		return errs.New(errs.Unauthorized, "sign in first, at "+websession.LoginPath+": without a session nothing says whose sessions are to end")
	}
	if dry {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if session.ID != "" {
		id := session.ID
		if everywhere == "true" {
			id = ""
		}
		if err := s.Grants.EndSession(context.WithoutCancel(r.Context()), session.Subject, id); err != nil {
			return err
		}
		s.Guard.SignedOut(r, authn.Caller{Subject: session.Subject, Groups: session.Groups, Via: authn.ViaSession})
	}
	s.Keeper.End(w)
	if session.ID != "" && q.Get("provider") == "true" {
		if page := s.Issuers.SignOutURL(r.Context(), session.Issuer, s.Keeper.Token(r, session)); page != "" {
			return web.JSON(w, http.StatusOK, v2.SignOut{Page: page})
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
