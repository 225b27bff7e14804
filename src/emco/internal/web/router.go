package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
)

// NewRouter returns a router that takes paths as they are: no redirects that clean
// them (a redirected POST loses its body), escaped slashes stay within a segment.
// An unknown path is 404, a known one with another method is 405 without a body.
func NewRouter() *mux.Router {
	r := mux.NewRouter().SkipClean(true).UseEncodedPath()
	r.Use(recordRoute)
	r.NotFoundHandler = unrouted(r)
	r.MethodNotAllowedHandler = r.NotFoundHandler
	return r
}

// NoRoute returns the error for a path that the server does not have: what upstream says, and what to do.
func NoRoute() error {
	return errs.New(errs.NotFound, "404 page not found: the server has no such path; GET /openapi.json lists the API, which is below /v2/")
}

// recordRoute records the template of the path of each request that has a route.
func recordRoute(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setRoute(r, Template(mux.CurrentRoute(r)))
		next.ServeHTTP(w, r)
	})
}

// unrouted answers what no route matches: 405 with the methods that the path has, or
// 404 if it has none. It asks the router for each method, because what mux itself
// knows of a method mismatch does not survive the matchers that Handle adds.
func unrouted(router *mux.Router) http.Handler {
	methods := [...]string{http.MethodDelete, http.MethodGet, http.MethodPost, http.MethodPut}
	return HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		var allowed []string
		for _, method := range methods {
			probe := *r
			probe.Method = method
			var match mux.RouteMatch
			if router.Match(&probe, &match) && match.MatchErr == nil && match.Route != nil {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			return NoRoute()
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil
	})
}

// Handle routes a method and a path template such as "/v2/projects/{project}", whose
// variables are whole segments. need is what the caller must be allowed.
func Handle(r *mux.Router, method, template string, need authz.Permission, h HandlerFunc) {
	Route(r, method, template, permittedHandler{h, need})
}

// Declared is the handler of a route. It knows what its callers must be allowed.
type Declared interface {
	http.Handler
	Permission() authz.Permission
}

type permittedHandler struct {
	HandlerFunc
	need authz.Permission
}

func (d permittedHandler) Permission() authz.Permission { return d.need }

// Needed returns what the route of a request declares that its caller must be allowed; false if it declares nothing.
func Needed(r *http.Request) (authz.Permission, bool) {
	d, ok := mux.CurrentRoute(r).GetHandler().(Declared)
	if !ok {
		return authz.Permission{}, false
	}
	return d.Permission(), true
}

// Route is Handle for handlers that describe themselves. It compares segments. mux would compile regular
// expressions for each template and each variable: at each start, for hundreds of routes.
func Route(r *mux.Router, method, template string, h Declared) {
	want := strings.Split(template, "/")
	r.NewRoute().
		Name(template).
		MatcherFunc(func(r *http.Request, m *mux.RouteMatch) bool {
			path := r.URL.EscapedPath()
			if !fits(want, path) {
				return false
			}
			if r.Method == method { // else the route of another method answers
				m.Vars = variables(want, path)
			}
			return true
		}).
		Methods(method).
		Handler(h)
}

// Template returns the path template of a route that Handle or Route made.
func Template(r *mux.Route) string { return r.GetName() }

// Ahead has h answer the requests of one method and path template, and next all others. It
// is for what comes very often: no other route is looked at before.
func Ahead(method, template string, h HandlerFunc, next http.Handler) http.Handler {
	want := strings.Split(template, "/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.EscapedPath(); r.Method == method && fits(want, path) {
			setRoute(r, template)
			h.ServeHTTP(w, withVars(r, variables(want, path)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withVars gives a request variables for Vars to find. One that Wrap knows is not copied.
func withVars(r *http.Request, vars map[string]string) *http.Request {
	if t := traceOf(r.Context()); t != nil {
		t.vars = vars
		return r
	}
	return mux.SetURLVars(r, vars)
}

func escapedVars(r *http.Request) map[string]string {
	if t := traceOf(r.Context()); t != nil && t.vars != nil {
		return t.vars
	}
	return mux.Vars(r)
}

// fits reports whether a path is one of a template's, by their segments.
func fits(want []string, path string) bool {
	if strings.Count(path, "/") != len(want)-1 {
		return false
	}
	for _, segment := range want {
		var part string
		part, path, _ = strings.Cut(path, "/")
		if isVariable(segment) && part == "" || !isVariable(segment) && part != segment {
			return false
		}
	}
	return true
}

// variables returns what a path that fits gives to the variables of a template.
func variables(want []string, path string) map[string]string {
	vars := map[string]string{}
	for _, segment := range want {
		var part string
		part, path, _ = strings.Cut(path, "/")
		if isVariable(segment) {
			vars[strings.Trim(segment, "{}")] = part
		}
	}
	return vars
}

func isVariable(segment string) bool { return strings.HasPrefix(segment, "{") }

// Vars returns the variables of a request's path, unescaped. All of them are names;
// one that is not is Invalid and shown escaped.
func Vars(r *http.Request) (map[string]string, error) {
	vars := escapedVars(r)
	names := make(map[string]string, len(vars))
	for key, escaped := range vars {
		name, err := url.PathUnescape(escaped)
		if err != nil {
			return nil, errs.New(errs.Invalid, "Invalid Input:\n- "+key+": bad escape in the path")
		}
		if err := v2.CheckName(key, name); err != nil {
			return nil, err
		}
		names[key] = name
	}
	return names, nil
}

// Cluster returns the key of the cluster that a request's path names.
func Cluster(r *http.Request) (v2.ClusterKey, error) {
	vars, err := Vars(r)
	return v2.NewClusterKey(vars["clusterProvider"], vars["cluster"]), err
}
