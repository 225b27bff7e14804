package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/access"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/throttle"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/oidc"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/websession"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/review"
	"github.com/emco-orchestrator/emco/src/emco/internal/run"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/identity"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Requests without a good credential from one address: ten at once, and then ten a minute.
const (
	refusedEach  = 10.0 / 60 // per second
	refusedBurst = 10
)

// Steps of sign-ins in browsers from one address: two are a sign-in.
const (
	signInsEach  = 10.0 // per second
	signInsBurst = 20
)

// Answers of issuers to one sign-in: browsers send one.
const (
	answersEach  = 1.0 / 10 // per second
	answersBurst = 3
)

// minBootstrap is the length of the shortest token in auth.bootstrapFile.
const minBootstrap = 32

// issuers returns the verifier of the tokens of auth.issuers; nil without any.
func issuers(c config.Auth) (*oidc.Verifier, error) {
	if len(c.Issuers) == 0 {
		return nil, nil
	}
	var all []oidc.Issuer
	for _, i := range c.Issuers {
		web, err := webClient(i.Web)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		all = append(all, oidc.Issuer{Name: i.Name, URL: i.URL, Audience: i.Audience, CA: i.CA, GroupsClaim: i.GroupsClaim, Prefix: i.Prefix, Web: web})
	}
	return oidc.New(all, nil)
}

// webClient returns how browsers sign in at an issuer. The secret is read at each sign-in, so that it can be renewed.
func webClient(c config.IssuerWeb) (oidc.Web, error) {
	w := oidc.Web{Client: c.Client, Redirect: c.Redirect, SignedOut: c.SignedOut}
	if c.SecretFile == "" {
		return w, nil
	}
	w.Secret = func() (string, error) { return readToken(c.SecretFile) }
	_, err := w.Secret()
	return w, err
}

// bootstrapToken returns the token in auth.bootstrapFile; empty without that setting.
func bootstrapToken(c config.Auth) (string, error) {
	if c.BootstrapFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(c.BootstrapFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minBootstrap || !authn.ValidName(token) {
		return "", fmt.Errorf("%s must hold a token of %d to 256 printable characters", c.BootstrapFile, minBootstrap)
	}
	return token, nil
}

// openAccess mounts roles, bindings and tokens. With auth.mode on it also makes the guard of the API, which needs
// the returned service.
func (a *App) openAccess(ctx context.Context, c config.Config, p resolvedSettings, db *store.DB, sealer *seal.Sealer, groups *orchestrator.Groups, r *mux.Router) ([]run.Service, error) {
	known := grants.New(db, a.log, nil)
	s := identity.Resources{DB: db, Grants: known, Now: time.Now}
	for _, i := range c.Auth.Issuers {
		s.Issuers = append(s.Issuers, v2.SignIn{Name: i.Name, URL: i.URL, Audience: i.Audience, Client: i.Client})
	}
	if c.Authenticates() {
		a.guard = &access.Guard{
			Grants: known, Now: time.Now, Refused: throttle.New(refusedEach, refusedBurst, nil), SignIns: throttle.New(signInsEach, signInsBurst, a.clock),
			Answers: throttle.New(answersEach, answersBurst, a.clock),
		}
		s.Sessions = a.openSessions(c.Auth.Sessions, p.issuers, known, sealer)
		s.Objects = fourEyes(c.Auth.FourEyes, db, known, groups, r)
	}
	s.Mount(r)
	if a.guard == nil {
		return nil, nil
	}
	made, err := known.Bootstrap(ctx, p.bootstrap)
	if err != nil {
		return nil, fmt.Errorf("make the token of the first administrator: %w", err)
	}
	if made != "" {
		a.announce(made)
	}
	who := &authn.Authenticator{Tokens: known, Proxy: authn.Proxy{Header: c.Auth.Proxy.Header, Names: c.Auth.Proxy.Names}}
	if p.issuers != nil {
		who.Issuers = p.issuers
	}
	if a.sessions != nil {
		who.Sessions = a.sessions
	}
	a.guard.Authenticator = who
	if n := c.Auth.Requests; n > 0 {
		a.guard.Callers = throttle.New(float64(n), 2*n, nil)
	}
	r.Use(a.guard.Authorize)
	return []run.Service{known}, nil
}

// fourEyes has requests note who changes what groups deploy in some projects, and refuses callers the approval of their own
// changes there. It returns what groups object to; nil without projects.
func fourEyes(projects []string, db *store.DB, known *grants.Cache, groups *orchestrator.Groups, r *mux.Router) func(context.Context, v2.GroupKey, string) error {
	if len(projects) == 0 {
		return nil
	}
	reviews := &review.Records{DB: db, Projects: projects, Makers: known.Makers, Now: time.Now}
	groups.WithReviews(reviews)
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(store.WithNotary(r.Context(), reviews)))
		})
	})
	return groups.Objection
}

// openSessions makes the sessions of browsers; nil if no issuer signs browsers in.
func (a *App) openSessions(c config.Sessions, issuers *oidc.Verifier, known *grants.Cache, sealer *seal.Sealer) *identity.Sessions {
	if issuers == nil || len(issuers.Prefixes()) == 0 {
		return nil
	}
	a.sessions = &websession.Keeper{
		Sealer: sealer, Live: known, Prefixes: issuers.Prefixes(), Life: time.Duration(c.Life), Idle: time.Duration(c.Idle), Now: a.clock,
	}
	return &identity.Sessions{Keeper: a.sessions, Issuers: issuers, Grants: known, Guard: a.guard, Most: c.Person}
}

// identified returns a handler that finds out who sends a request.
func (a *App) identified(c config.Config, next http.Handler) http.Handler {
	if a.sessions != nil {
		next = a.sessions.Renew(next)
	}
	if a.guard != nil {
		return a.guard.Authenticate(next)
	}
	return web.Identify(c.HTTP.ActorHeader, next)
}

// announceBootstrap shows the bootstrap token to who starts the program. It is no line of the log, which others
// read.
func announceBootstrap(token string) {
	fmt.Fprintf(os.Stderr, "Nobody is an administrator yet. This token is one for 24 hours, until the first binding of platform-admin; it is not shown again:\n%s\n", token)
}
