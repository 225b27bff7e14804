// Package access admits requests and gRPC calls: it asks package authn for the caller, compares the permission that the
// route needs with the caller's grants, and limits how often callers and addresses may ask.
package access

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/throttle"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Guard admits requests.
type Guard struct {
	Authenticator *authn.Authenticator
	Grants        *grants.Cache
	Now           func() time.Time
	Witness       Witness        // nil: none
	Proxies       []netip.Prefix // in front of gRPC, whose X-Forwarded-For names the client; requests come with the client's address

	// Each process counts only what it serves.
	Callers *throttle.Limiter // requests, by subject; nil: no limit
	Refused *throttle.Limiter // requests with a wrong or missing credential, by address; nil: no limit
	SignIns *throttle.Limiter // steps of sign-ins in browsers that show no cookie, by address; nil: no limit
	Answers *throttle.Limiter // answers of issuers, by the state of a sign-in; nil: no limit
}

// Witness observes what a Guard decides.
type Witness interface {
	// Known observes each request whose caller is known.
	Known(r *http.Request, caller authn.Caller)
	// Refused observes each request that is not let in: what it needs is zero if the caller could not be found out.
	Refused(r *http.Request, caller authn.Caller, need authz.Permission, err error)
	// SignedIn observes each sign-in in a browser, SignedOut each sign-out.
	SignedIn(r *http.Request, caller authn.Caller)
	SignedOut(r *http.Request, caller authn.Caller)
	// SignedOutBy observes that an issuer has ended sign-ins of a caller, whose subject is empty if the issuer names only the sign-in.
	SignedOutBy(r *http.Request, issuer string, caller authn.Caller)
}

// Authenticate returns a handler that passes requests with their callers on to next. Requests without a
// credential pass: Authorize refuses them where one is needed.
func (g *Guard) Authenticate(next http.Handler) http.Handler {
	return web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		caller, err := g.Authenticator.Authenticate(r)
		if err == nil {
			err = g.count(caller)
		}
		if err != nil {
			g.refused(r, caller, authz.Permission{}, err)
			return challenge(w, g.refuse(r.RemoteAddr, err))
		}
		if caller.Subject != "" {
			if g.Witness != nil {
				g.Witness.Known(r, caller)
			}
			r = r.WithContext(web.WithActor(authn.With(r.Context(), caller), caller.Subject))
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// count counts a request of a caller; Throttled if there are too many.
func (g *Guard) count(caller authn.Caller) error {
	if caller.Subject == "" {
		return nil
	}
	if wait := g.Callers.Take(caller.Subject); wait > 0 {
		return errs.Throttle("", "", wait, errors.New(caller.Subject+" sends too many requests (auth.requests); try again in "+seconds(wait)))
	}
	return nil
}

// refuse counts a refusal of a wrong or missing credential; Throttled instead of Unauthorized if too many come
// from an address. A good credential is never refused for the wrong ones of others at the same address.
func (g *Guard) refuse(address string, err error) error {
	if !errs.Is(err, errs.Unauthorized) {
		return err
	}
	from := web.Network(address)
	if wait := g.Refused.Take(from); wait > 0 {
		return errs.Throttle("", "", wait, errors.New("too many requests without a good credential come from "+from+"; try again in "+seconds(wait)))
	}
	return err
}

// seconds returns a wait in words.
func seconds(wait time.Duration) string { return max(wait.Round(time.Second), time.Second).String() }

// refused notifies the witness.
func (g *Guard) refused(r *http.Request, caller authn.Caller, need authz.Permission, err error) {
	if g.Witness != nil {
		g.Witness.Refused(r, caller, need, err)
	}
}

// challenge names in the answer how to authenticate.
func challenge(w http.ResponseWriter, err error) error {
	switch errs.KindOf(err) {
	case errs.Unauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="emco", error="invalid_token"`)
	case errs.Unavailable:
		w.Header().Set("Retry-After", "10")
	}
	return err
}

// Authorize is middleware of the router: it passes requests on to their routes with what their callers may
// do, if they may do what the route needs. A route that declares nothing is refused.
func (g *Guard) Authorize(next http.Handler) http.Handler {
	return web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		need, ok := web.Needed(r)
		if !ok {
			return errs.New(errs.Internal, "the route declares no permission: "+r.URL.Path)
		}
		if need.Verb == authz.Public {
			next.ServeHTTP(w, r)
			return nil
		}
		vars, err := web.Vars(r)
		if err != nil {
			return err
		}
		authority, err := g.admit(w, r, need, PlaceOf(vars))
		if err != nil {
			return err
		}
		ctx := authz.With(r.Context(), authority)
		if r.Method == http.MethodGet {
			ctx = authz.WithRenewal(ctx, func() (*authz.Authority, error) { return g.again(r, need, PlaceOf(vars)) })
			ctx = web.WithRecheck(ctx, func() error { _, err := authz.Renewed(ctx); return err })
		}
		next.ServeHTTP(w, r.WithContext(ctx))
		if changesAccess(r, need) {
			_ = g.Grants.Refresh(r.Context()) // so that the caller's next request finds it; otherwise it comes within a second
		}
		return nil
	})
}

// again admits a request that is being answered for some time.
func (g *Guard) again(r *http.Request, need authz.Permission, place string) (*authz.Authority, error) {
	caller, err := g.Authenticator.Again(r)
	if err != nil {
		return nil, err
	}
	return g.Admit(caller, need, place)
}

// changesAccess reports whether a request may have changed who may do what.
func changesAccess(r *http.Request, need authz.Permission) bool {
	return r.Method != http.MethodGet && (need.Type == grants.Roles || need.Type == grants.Bindings || need.Type == grants.Tokens)
}

// Protect returns a handler for what is not on the router.
func (g *Guard) Protect(need authz.Permission, next http.Handler) http.Handler {
	return g.Authenticate(web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		authority, err := g.admit(w, r, need, "")
		if err != nil {
			return err
		}
		next.ServeHTTP(w, r.WithContext(authz.With(r.Context(), authority)))
		return nil
	}))
}

func (g *Guard) admit(w http.ResponseWriter, r *http.Request, need authz.Permission, place string) (*authz.Authority, error) {
	caller := authn.From(r.Context())
	if caller.Subject == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="emco"`)
	}
	authority, err := g.Admit(caller, need, place)
	if err != nil {
		g.refused(r, caller, need, err)
		err = g.refuse(r.RemoteAddr, err)
	}
	if errs.Is(err, errs.Unavailable) {
		w.Header().Set("Retry-After", "1")
	}
	return authority, err
}

// Admit returns what a caller may do, if it may do what is needed at a place. Otherwise the error is
// Unauthorized without a caller; NotFound for what the caller may not read either, so that it is like something
// that does not exist; else Forbidden.
func (g *Guard) Admit(caller authn.Caller, need authz.Permission, place string) (*authz.Authority, error) {
	if caller.Subject == "" {
		return nil, errSignIn()
	}
	all, err := g.Grants.Current()
	if err != nil {
		return nil, err
	}
	a := authz.NewAuthority(all, caller.Subject, caller.Groups, g.Now())
	switch {
	case need.Verb == authz.SignedIn, a.May(need.Verb, need.Type, place), need.Confined && a.Anywhere(need.Verb, need.Type):
		return a, nil
	case need.Verb != authz.Get && a.May(authz.Get, need.Type, place), place == "":
		return nil, refusal(caller, a, need, place)
	}
	return nil, errs.New(errs.NotFound, "not found in "+place+", or hidden from "+caller.Subject)
}

// errSignIn is the refusal of a request without a credential.
func errSignIn() error {
	return errs.New(errs.Unauthorized, "sign in: this needs a bearer token, a client certificate, or the session of a browser")
}

// refusal names what is missing, and who can give it.
func refusal(caller authn.Caller, a *authz.Authority, need authz.Permission, place string) error {
	where := "everywhere"
	if place != "" {
		where = "in " + place
	}
	text := caller.Subject + " may not " + need.String() + " " + where
	if d := a.Decide(need.Verb, need.Type, place); d.Binding != nil {
		text += " (" + d.Because() + ")"
	}
	const most = 3
	var who []string
	for _, h := range a.Who(authz.Create, grants.Bindings, place) {
		if who = append(who, h.Subject); len(who) == most {
			break
		}
	}
	if len(who) > 0 {
		text += "; a role that allows it can be given by " + strings.Join(who, ", ")
	}
	return errs.New(errs.Forbidden, text)
}

// PlaceOf returns the place that the names in a path mean.
func PlaceOf(vars map[string]string) string {
	if name := vars["project"]; name != "" {
		return v2.ProjectStoreKey(name)
	}
	if name := vars["clusterProvider"]; name != "" {
		return v2.ProviderStoreKey(name)
	}
	return ""
}
