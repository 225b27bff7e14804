package access

import (
	"errors"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// CountSignIn counts a step of a sign-in in a browser that shows nothing which EMCO gave it; Throttled if too many come
// from its address. A good sign-in or session is never refused for others at the same address.
func (g *Guard) CountSignIn(r *http.Request) error {
	from := web.Network(r.RemoteAddr)
	if wait := g.SignIns.Take(from); wait > 0 {
		return errs.Throttle("", "", wait, errors.New("too many sign-ins come from "+from+"; try again in "+seconds(wait)))
	}
	return nil
}

// CountAnswer counts an answer of an issuer to the sign-in with a state; Throttled if it has too many. Each one is a
// question to the issuer.
func (g *Guard) CountAnswer(state string) error {
	if wait := g.Answers.Take(state); wait > 0 {
		return errs.Throttle("", "", wait, errors.New("this sign-in was ended too often; begin it again"))
	}
	return nil
}

// SignedIn notifies the witness of a caller that signed in with a browser.
func (g *Guard) SignedIn(r *http.Request, caller authn.Caller) {
	if g.Witness != nil {
		g.Witness.SignedIn(r, caller)
	}
}

// SignedOut notifies the witness of a caller that ended its session.
func (g *Guard) SignedOut(r *http.Request, caller authn.Caller) {
	if g.Witness != nil {
		g.Witness.SignedOut(r, caller)
	}
}

// RefuseSignIn counts and records a sign-in that failed, and returns how to answer.
func (g *Guard) RefuseSignIn(w http.ResponseWriter, r *http.Request, caller authn.Caller, err error) error {
	g.refused(r, caller, authz.Permission{}, err)
	if err = g.refuse(r.RemoteAddr, err); errs.Is(err, errs.Unauthorized) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="emco"`)
	}
	return err
}

// SignedOutBy notifies the witness of a caller whose sign-ins an issuer has ended.
func (g *Guard) SignedOutBy(r *http.Request, issuer string, caller authn.Caller) {
	if g.Witness != nil {
		g.Witness.SignedOutBy(r, issuer, caller)
	}
}

// RefuseLogout counts and records a report of a sign-out that is refused, and returns how to answer. Good reports are not limited: an
// issuer may end the sign-ins of very many people at once.
func (g *Guard) RefuseLogout(r *http.Request, err error) error {
	g.refused(r, authn.Caller{}, authz.Permission{}, err)
	return g.refuse(r.RemoteAddr, err)
}
