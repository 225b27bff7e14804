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

// recordRoute records the template of the path of each request that has a route.
func recordRoute(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if template, err := mux.CurrentRoute(r).GetPathTemplate(); err == nil {
			setRoute(r, template)
		}
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
			return errs.New(errs.NotFound, "404 page not found")
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil
	})
}

// Handle routes a method and a path template such as "/v2/projects/{project}". The
// number of segments is compared before the template's regular expression, which
// makes mux's linear search cheap. need is what the caller must be allowed.
func Handle(r *mux.Router, method, template string, need authz.Permission, h HandlerFunc) {
	Route(r, method, template, declared{h, need})
}

// Declared is the handler of a route. It knows what its callers must be allowed.
type Declared interface {
	http.Handler
	Permission() authz.Permission
}

type declared struct {
	HandlerFunc
	need authz.Permission
}

func (d declared) Permission() authz.Permission { return d.need }

// Needed returns what the route of a request declares that its caller must be allowed; false if it declares nothing.
func Needed(r *http.Request) (authz.Permission, bool) {
	d, ok := mux.CurrentRoute(r).GetHandler().(Declared)
	if !ok {
		return authz.Permission{}, false
	}
	return d.Permission(), true
}

// Route is Handle for handlers that describe themselves.
func Route(r *mux.Router, method, template string, h Declared) {
	segments := strings.Count(template, "/")
	r.NewRoute().
		MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool {
			return strings.Count(r.URL.EscapedPath(), "/") == segments
		}).
		Path(template).
		Methods(method).
		Handler(h)
}

// Ahead has h answer the requests of one method and path template, and next all others. It
// is for what comes very often: no other route is looked at before.
func Ahead(method, template string, h HandlerFunc, next http.Handler) http.Handler {
	want := strings.Split(template, "/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method {
			if vars := match(want, r.URL.EscapedPath()); vars != nil {
				setRoute(r, template)
				h.ServeHTTP(w, withVars(r, vars))
				return
			}
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

// match returns the variables that a path gives to the segments of a template; nil if it
// does not fit.
func match(want []string, path string) map[string]string {
	if strings.Count(path, "/") != len(want)-1 {
		return nil
	}
	vars := map[string]string{}
	for _, segment := range want {
		var part string
		part, path, _ = strings.Cut(path, "/")
		switch {
		case strings.HasPrefix(segment, "{") && part != "":
			vars[strings.Trim(segment, "{}")] = part
		case segment != part:
			return nil
		}
	}
	return vars
}

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
