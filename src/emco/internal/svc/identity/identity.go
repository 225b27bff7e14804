// Package identity serves roles, bindings, API tokens and sign-ins of browsers, and the questions who a caller is and
// what it may do. It owns these documents and reads projects and cluster providers, which are the parents of bindings.
package identity

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/access"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/apitoken"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Resources are what the service serves.
type Resources struct {
	DB      *store.DB
	Grants  *grants.Cache
	Issuers []v2.SignIn
	Now     func() time.Time

	// Objects returns why the caller may not carry out an action of a group now, though its roles allow it: Forbidden or Conflict.
	// nil: nothing but roles decides.
	Objects func(ctx context.Context, group v2.GroupKey, action string) error

	Sessions *Sessions // of browsers; nil: none
}

// maxBody bounds the body of a question and of a token, in bytes.
const maxBody = 16 << 10

// Mount adds the routes.
func (s Resources) Mount(r *mux.Router) {
	resource.Mount(r, s.DB, resource.Def[v2.Role]{
		Kind: "Role", Collection: grants.Roles, Item: "{role}", Put: resource.PutUpsert, Check: s.checkRole,
	})
	s.bindings(r, grants.Bindings, "")
	s.bindings(r, "projects/{project}/"+grants.Bindings, "Project not found")
	s.bindings(r, "cluster-providers/{clusterProvider}/"+grants.Bindings, "Cluster provider not found")

	token := func(verb string) authz.Permission { return authz.Permission{Verb: verb, Type: grants.Tokens} }
	web.Handle(r, http.MethodPost, "/v2/tokens", token(authz.Create), web.WithDryRun(s.makeToken))
	web.Handle(r, http.MethodGet, "/v2/tokens", token(authz.List), s.listTokens)
	web.Handle(r, http.MethodDelete, "/v2/tokens/{token}", token(authz.Delete), web.WithDryRun(s.revokeToken))

	s.Sessions.mount(r)

	signedIn := authz.Permission{Verb: authz.SignedIn, Type: "auth"}
	web.Handle(r, http.MethodGet, "/v2/auth/issuers", authz.Permission{Verb: authz.Public, Type: "auth"}, s.issuers)
	web.Handle(r, http.MethodGet, "/v2/auth/whoami", signedIn, s.whoami)
	web.HandleReading(r, http.MethodPost, "/v2/auth/can-i", signedIn, web.WithDryRun(question{r, s.Objects}.canI))
	web.HandleReading(r, http.MethodPost, "/v2/auth/who-can", signedIn, web.WithDryRun(question{r, s.Objects}.whoCan))
}

func (s Resources) bindings(r *mux.Router, collection, orphan string) {
	resource.Mount(r, s.DB, resource.Def[v2.RoleBinding]{
		Kind: "RoleBinding", Orphan: orphan, Collection: collection, Item: "{roleBinding}", Put: resource.PutUpsert,
		Refs: func(_ resource.Place, b v2.RoleBinding) []store.Ref {
			if _, built := authz.BuiltIn()[b.Spec.Role]; built {
				return nil
			}
			return []store.Ref{{Key: store.Key(grants.Roles + "/" + b.Spec.Role), Must: true}}
		},
		Check:  s.checkBinding,
		Guards: resource.Guards{Replace: s.beforeEnd, Delete: s.beforeEnd},
	})
}

// checkRole refuses the names of roles that are built in, and rules that the caller does not have everywhere:
// the role may be bound anywhere.
func (s Resources) checkRole(ctx context.Context, at resource.Place, r v2.Role) error {
	name := r.Metadata.Name
	if _, built := authz.BuiltIn()[name]; built {
		return errs.New(errs.Invalid, "the role "+name+" is built in; choose another name")
	}
	return escalation(authz.From(ctx).Missing(grants.Rules(r), ""), "everywhere")
}

// checkBinding refuses to give what the caller does not have at the place.
func (s Resources) checkBinding(ctx context.Context, at resource.Place, b v2.RoleBinding) error {
	if at.Parent != "" && slices.Contains([]string{authz.PlatformAdmin, authz.Auditor}, b.Spec.Role) {
		return errs.New(errs.Invalid, "the role "+b.Spec.Role+" is for the whole platform; bind it below /v2/role-bindings")
	}
	return s.mayGive(ctx, b.Spec.Role, string(at.Parent))
}

// beforeEnd is asked before a binding changes or goes. An administrator that was there ends the bootstrap token,
// also when no process has seen the binding yet.
func (s Resources) beforeEnd(ctx context.Context, doc store.Doc) error {
	b, err := store.Decode[v2.RoleBinding](doc)
	if err == nil {
		err = s.checkEnd(ctx, doc, b)
	}
	if err != nil || resource.DryRun(ctx) {
		return err
	}
	ends := b.Ends()
	if doc.Parent == "" && b.Spec.Role == authz.PlatformAdmin && !b.Spec.Deny && (ends.IsZero() || s.Now().Before(ends)) {
		return s.Grants.EndBootstrap(ctx)
	}
	return nil
}

// checkEnd refuses to end a denial of what the caller does not have itself: no caller ends its own denial. In a
// project or a provider, those who may end denials everywhere may end it, whomever it names.
func (s Resources) checkEnd(ctx context.Context, doc store.Doc, b v2.RoleBinding) error {
	if !b.Spec.Deny {
		return nil
	}
	if doc.Parent != "" && authz.From(ctx).May(authz.Delete, grants.Bindings, "") {
		return nil
	}
	return s.mayGive(ctx, b.Spec.Role, string(doc.Parent))
}

func (s Resources) mayGive(ctx context.Context, role, place string) error {
	rules, err := s.Grants.Role(ctx, role)
	if errs.Is(err, errs.Invalid) && authz.From(ctx) == nil {
		return nil // the reference is checked when the document is written
	}
	if err != nil {
		return err
	}
	return escalation(authz.From(ctx).Missing(rules, place), place)
}

func escalation(missing, place string) error {
	if missing == "" {
		return nil
	}
	if place == "" {
		place = "everywhere"
	}
	return errs.New(errs.Forbidden, "callers cannot give more than they have: you may not "+missing+" in "+place)
}

// makeToken makes an API token. The answer is the only place that shows it.
func (s Resources) makeToken(w http.ResponseWriter, r *http.Request, dry bool) error {
	if err := web.CheckQuery(r.URL.Query(), "dryRun"); err != nil {
		return err
	}
	text, err := web.Body(w, r, maxBody)
	if err != nil {
		return err
	}
	t, err := v2.Decode[v2.APIToken](text, v2.Lenient)
	if err == nil {
		err = t.Validate()
	}
	if err == nil {
		err = s.checkToken(r.Context(), t)
	}
	if err != nil {
		return err
	}
	t.UID, t.Made, t.Actor = "", s.Now().UTC().Truncate(time.Second), web.Actor(r.Context())
	out := v2.NewAPIToken{APIToken: t}
	key := store.Key(grants.Tokens + "/" + t.Metadata.Name)
	if dry {
		if _, err := s.DB.Get(r.Context(), key); err == nil {
			return errs.New(errs.Exists, "Token already exists")
		}
		return web.JSON(w, http.StatusCreated, out)
	}
	out.Token = apitoken.New()
	body, err := json.Marshal(grants.TokenRecord{APIToken: t, Digest: apitoken.Digest(out.Token)})
	if err != nil {
		return err
	}
	var refs []store.Ref
	if _, built := authz.BuiltIn()[t.Spec.Role]; !built {
		refs = append(refs, store.Ref{Key: store.Key(grants.Roles + "/" + t.Spec.Role), Must: true})
	}
	if t.Spec.Place != "" { // another place of the same name must not inherit the token
		refs = append(refs, store.Ref{Key: store.Key(t.Spec.Place), Must: true})
	}
	doc, err := s.DB.Create(r.Context(), store.Write{Key: key, Body: body, Refs: refs})
	if errs.Is(err, errs.Exists) {
		err = errs.New(errs.Exists, "Token already exists")
	}
	if err != nil {
		return err
	}
	out.UID = doc.UID
	return web.JSON(w, http.StatusCreated, out)
}

// checkToken refuses a token that lives too long, or may do more than its maker.
func (s Resources) checkToken(ctx context.Context, t v2.APIToken) error {
	now := s.Now()
	switch end := t.Ends(); {
	case !end.After(now):
		return errs.New(errs.Invalid, "Invalid Input:\n- spec.expires: it is in the past")
	case end.Sub(now) > v2.MaxTokenLife:
		return errs.New(errs.Invalid, "Invalid Input:\n- spec.expires: a token lives at most a year")
	}
	rules, err := s.Grants.Role(ctx, t.Spec.Role)
	if err == nil {
		err = escalation(authz.From(ctx).Missing(rules, t.Spec.Place), t.Spec.Place)
	}
	if err == nil { // bindings name tokens that are made later, and those that were revoked
		subject := grants.TokenSubject(t.Metadata.Name)
		if binding, missing := authz.From(ctx).MissingOf(subject); missing != "" {
			err = errs.New(errs.Forbidden, binding+" gives "+subject+" what you do not have: you may not "+missing+"; choose another name")
		}
	}
	if err != nil || t.Spec.Place == "" {
		return err
	}
	if _, err := s.DB.Get(ctx, store.Key(t.Spec.Place)); errs.Is(err, errs.NotFound) {
		return errs.New(errs.Invalid, "Invalid Input:\n- spec.place: there is no "+t.Spec.Place)
	}
	return nil
}

// listTokens answers with all tokens, without what is secret of them.
func (s Resources) listTokens(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	out := []v2.APIToken{}
	for t, err := range store.All[grants.TokenRecord](r.Context(), s.DB, grants.Tokens, store.Query{Depth: 1}) {
		if err != nil {
			return err
		}
		one := t.Value.APIToken
		one.UID = t.Doc.UID
		out = append(out, one)
	}
	return web.JSON(w, http.StatusOK, out)
}

// revokeToken ends a token.
func (s Resources) revokeToken(w http.ResponseWriter, r *http.Request, dry bool) error {
	if err := web.CheckQuery(r.URL.Query(), "dryRun"); err != nil {
		return err
	}
	vars, err := web.Vars(r)
	if err != nil {
		return err
	}
	key := store.Key(grants.Tokens + "/" + vars["token"])
	if dry {
		_, err = s.DB.Get(r.Context(), key)
	} else {
		err = s.DB.Delete(r.Context(), key, nil)
	}
	if errs.Is(err, errs.NotFound) {
		err = errs.New(errs.NotFound, "Token not found")
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// issuers answers where people sign in.
func (s Resources) issuers(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, append([]v2.SignIn{}, s.Issuers...))
}

// whoami answers who the caller is.
func (s Resources) whoami(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	c := authn.From(r.Context())
	if authz.From(r.Context()) == nil {
		return web.JSON(w, http.StatusOK, v2.WhoAmI{Subject: web.Actor(r.Context()), Via: "off"})
	}
	return web.JSON(w, http.StatusOK, v2.WhoAmI{Subject: c.Subject, UID: c.UID, Groups: c.Groups, Via: c.Via, Until: c.Until})
}

// question answers questions about permissions. It asks the router what a path needs.
type question struct {
	router  *mux.Router
	objects func(ctx context.Context, group v2.GroupKey, action string) error // as in Resources
}

func (q question) canI(w http.ResponseWriter, r *http.Request, _ bool) error {
	a, vars, err := q.read(w, r)
	if err != nil {
		return err
	}
	if a.Verb == authz.Public || a.Verb == authz.SignedIn {
		return web.JSON(w, http.StatusOK, v2.AccessAnswer{Allowed: true, Because: "it needs no role", Verb: a.Verb, Type: a.Type})
	}
	d := authz.From(r.Context()).Decide(a.Verb, a.Type, a.Place)
	out := v2.AccessAnswer{Allowed: d.Allowed, Because: d.Because(), Verb: a.Verb, Type: a.Type, Place: a.Place}
	if objection := q.objection(r.Context(), a, vars); out.Allowed && objection != nil {
		if !errs.Is(objection, errs.Forbidden) && !errs.Is(objection, errs.Conflict) {
			return objection
		}
		out.Allowed, out.Because = false, objection.Error()
	}
	return web.JSON(w, http.StatusOK, out)
}

// objection returns what else than roles forbids an action of a group that a path names.
func (q question) objection(ctx context.Context, a v2.Access, vars map[string]string) error {
	action, acts := strings.CutPrefix(a.Verb, authz.Act(""))
	if q.objects == nil || !acts || a.Type != "deployment-intent-groups" || vars["deploymentIntentGroup"] == "" {
		return nil
	}
	return q.objects(ctx, web.Group(vars), action)
}

// whoCan answers who may do something, to those who may read the bindings there.
func (q question) whoCan(w http.ResponseWriter, r *http.Request, _ bool) error {
	a, _, err := q.read(w, r)
	if err != nil {
		return err
	}
	authority := authz.From(r.Context())
	if !authority.May(authz.List, grants.Bindings, a.Place) {
		return errs.New(errs.Forbidden, "who may do something is shown to those who may list role-bindings there")
	}
	out := v2.Holders{Verb: a.Verb, Type: a.Type, Place: a.Place, Items: []v2.Holder{}}
	for _, h := range authority.Who(a.Verb, a.Type, a.Place) {
		out.Items = append(out.Items, v2.Holder{Subject: h.Subject, Role: h.Role, Binding: h.Binding})
	}
	return web.JSON(w, http.StatusOK, out)
}

// read reads a question, and finds out what a method and a path need. vars are the names in the path.
func (q question) read(w http.ResponseWriter, r *http.Request) (a v2.Access, vars map[string]string, err error) {
	if err := web.CheckQuery(r.URL.Query(), "dryRun"); err != nil {
		return a, nil, err
	}
	text, err := web.Body(w, r, maxBody)
	if err != nil {
		return a, nil, err
	}
	if a, err = v2.Decode[v2.Access](text, v2.Strict); err != nil {
		return a, nil, err
	}
	if a.Path == "" {
		if a.Verb == "" || a.Type == "" {
			err = errs.New(errs.Invalid, "give method and path, or verb and type")
		}
		return a, nil, err
	}
	return q.resolve(a)
}

func (q question) resolve(a v2.Access) (v2.Access, map[string]string, error) {
	u, err := url.Parse(a.Path)
	if err != nil || !strings.HasPrefix(a.Path, "/v2/") {
		return a, nil, errs.New(errs.Invalid, "the path must be one of the API, such as /v2/projects/shop")
	}
	method := a.Method
	if method == "" {
		method = http.MethodGet
	}
	var match mux.RouteMatch
	asked := &http.Request{Method: method, URL: u}
	if !q.router.Match(asked, &match) || match.MatchErr != nil || match.Route == nil {
		return a, nil, errs.New(errs.NotFound, "there is no route "+method+" "+u.Path)
	}
	declared, ok := match.Route.GetHandler().(web.Declared)
	if !ok {
		return a, nil, errs.New(errs.NotFound, "there is no route "+method+" "+u.Path)
	}
	vars, err := web.Vars(mux.SetURLVars(asked, match.Vars))
	need := declared.Permission()
	a.Verb, a.Type, a.Place = need.Verb, need.Type, access.PlaceOf(vars)
	return a, vars, err
}
