package statusview

import (
	"net/url"
	"regexp"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Query is a status query of upstream's API v2: the view, the amount and the filters.
type Query struct {
	Ready     bool // the clusters' view instead of rsync's
	Legacy    bool // uses the deprecated parameter type, which changes the names of the answer's members
	Output    string
	Apps      map[string]bool        // empty: all
	Clusters  map[v2.ClusterKey]bool // empty: all
	Resources map[string]bool
	Instance  string // context id; empty for the latest
	List      string // apps, clusters or resources: answer with names only
	Watch     bool   // answer again whenever the answer changes
}

// The values of Output.
const (
	Summary = "summary"
	All     = "all"
	Detail  = "detail"
)

// labelValue matches valid names in filters.
var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// maxLabelValue is the longest of these names.
const maxLabelValue = 63

// groupParams are the parameters of a query.
var groupParams = []string{"type", "status", "output", "instance", "app", "cluster", "resource", "apps", "clusters", "resources", "watch"}

// ParseGroup reads the parameters of a query for a deployment intent group. Errors have
// upstream's texts.
func ParseGroup(v url.Values) (Query, error) { return parse(v, "apps", "clusters", "resources") }

// ParseCluster reads the parameters of a query for a cluster: those of a group. There are no lists; as
// in upstream EMCO, asking for one has no effect.
func ParseCluster(v url.Values) (Query, error) { return parse(v) }

func parse(v url.Values, lists ...string) (Query, error) {
	q := Query{Output: All}
	if err := web.CheckQuery(v, groupParams...); err != nil {
		return q, err
	}
	for _, read := range []func(url.Values) error{q.deprecated, q.view, q.amount, q.listing(lists...), q.filters, q.follow} {
		if err := read(v); err != nil {
			return q, err
		}
	}
	return q, nil
}

// ParseCloud reads the parameters of a query for a logical cloud. The clusters' view is the
// default, and there are no apps. As in upstream EMCO, the deprecated type is ignored.
func ParseCloud(v url.Values) (Query, error) {
	q := Query{Output: All, Ready: true}
	if err := web.CheckQuery(v, groupParams...); err != nil { // type, app and apps have no effect, as in upstream EMCO
		return q, err
	}
	for _, read := range []func(url.Values) error{q.view, q.amount, q.listing("clusters", "resources"), q.filters, q.follow} {
		if err := read(v); err != nil {
			return q, err
		}
	}
	q.Apps = nil
	return q, nil
}

// Filter lists the names that pass; an empty list lets all pass.
type Filter struct{ Apps, Clusters, Resources []string }

// NewQuery returns a query that was not read from a URL.
func NewQuery(ready bool, output string, f Filter) (Query, error) {
	q := Query{Ready: ready, Output: output}
	return q, q.filter(f)
}

// deprecated reads the type, which applies without status.
func (q *Query) deprecated(v url.Values) error {
	types := map[string]bool{"": false, "rsync": false, "cluster": true}
	ready, known := types[v.Get("type")]
	if !known {
		return errs.New(errs.Invalid, "Invalid query type")
	}
	q.Legacy, q.Ready = true, ready
	return nil
}

// view reads the parameter status.
func (q *Query) view(v url.Values) error {
	if !v.Has("status") {
		return nil
	}
	ready, known := map[string]bool{"deployed": false, "ready": true}[v.Get("status")]
	if !known {
		return errs.New(errs.Invalid, "Invalid query status")
	}
	q.Legacy, q.Ready = false, ready
	return nil
}

// amount reads the parameters output and instance.
func (q *Query) amount(v url.Values) error {
	if o := v.Get("output"); o != "" {
		q.Output = o
	}
	if q.Output != Summary && q.Output != All && q.Output != Detail {
		return errs.New(errs.Invalid, "Invalid query output")
	}
	if q.Instance = v.Get("instance"); v.Has("instance") && q.Instance == "" {
		return errs.New(errs.Invalid, "Invalid query instance")
	}
	return nil
}

// listing reads which list of names the query asks for. The first one applies.
func (q *Query) listing(lists ...string) func(url.Values) error {
	return func(v url.Values) error {
		for _, list := range lists {
			if q.List == "" && v.Has(list) {
				q.List, q.Output = list, All
			}
		}
		return nil
	}
}

func (q *Query) filters(v url.Values) error {
	return q.filter(Filter{Apps: v["app"], Clusters: v["cluster"], Resources: v["resource"]})
}

func (q *Query) filter(f Filter) (err error) {
	if q.Apps, err = names[string](f.Apps, "Invalid app query", isLabel); err != nil {
		return err
	}
	if q.Resources, err = names[string](f.Resources, "Invalid resources query", isLabel); err != nil {
		return err
	}
	q.Clusters, err = names[v2.ClusterKey](f.Clusters, "Invalid cluster query", isCluster)
	return err
}

// follow reads the parameter watch.
func (q *Query) follow(v url.Values) error {
	switch v.Get("watch") {
	case "", "false":
	case "true":
		q.Watch = true
	default:
		return errs.New(errs.Invalid, "Invalid query watch")
	}
	return nil
}

func names[N ~string](given []string, complaint string, valid func(string) bool) (map[N]bool, error) {
	out := map[N]bool{}
	for _, name := range given {
		if !valid(name) {
			return nil, errs.New(errs.Invalid, complaint)
		}
		out[N(name)] = true
	}
	return out, nil
}

func isLabel(s string) bool { return len(s) <= maxLabelValue && labelValue.MatchString(s) }

// isCluster requires a plus sign; one that is not escaped in the URL becomes a space.
func isCluster(s string) bool {
	key, err := v2.ParseClusterKey(s)
	return err == nil && isLabel(key.Provider()) && isLabel(key.Cluster())
}

// admits reports whether a filter lets a name pass; an empty one lets all.
func admits[N ~string](filter map[N]bool, name N) bool {
	return len(filter) == 0 || filter[name]
}
