package identity

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/access"
	"github.com/emco-orchestrator/emco/src/emco/internal/access/grants"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// permissionQuestions answers questions about permissions. It asks the router what a path needs.
type permissionQuestions struct {
	router  *mux.Router
	objects func(ctx context.Context, group v2.GroupKey, action string) error // as in Resources
}

func (q permissionQuestions) canI(w http.ResponseWriter, r *http.Request, _ bool) error {
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
func (q permissionQuestions) objection(ctx context.Context, a v2.Access, vars map[string]string) error {
	action, acts := strings.CutPrefix(a.Verb, authz.Act(""))
	if q.objects == nil || !acts || a.Type != "deployment-intent-groups" || vars["deploymentIntentGroup"] == "" {
		return nil
	}
	return q.objects(ctx, web.Group(vars), action)
}

// whoCan answers who may do something, to those who may read the bindings there.
func (q permissionQuestions) whoCan(w http.ResponseWriter, r *http.Request, _ bool) error {
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
func (q permissionQuestions) read(w http.ResponseWriter, r *http.Request) (a v2.Access, vars map[string]string, err error) {
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

func (q permissionQuestions) resolve(a v2.Access) (v2.Access, map[string]string, error) {
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
