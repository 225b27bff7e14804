package orchestrator

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// query is a status query: which view, how much of it, and of what (EMCO API v2,
// status queries).
type query struct {
	ready     bool // the clusters' view rather than the synchroniser's
	legacy    bool // asked for with the deprecated parameter type, which names the members of the answer
	output    string
	apps      map[string]bool // empty: all
	clusters  map[string]bool
	resources map[string]bool
	instance  string // context id; empty for the latest
	list      string // apps, clusters or resources: answer with names only
}

// labelValue is what names in filters must look like.
var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// parseQuery reads the parameters; its errors have EMCO's words.
func parseQuery(v url.Values) (query, error) {
	q := query{output: "all"}
	for _, read := range []func(url.Values) error{q.view, q.amount, q.filters} {
		if err := read(v); err != nil {
			return q, err
		}
	}
	return q, nil
}

// view reads whose view is asked for; status overrides the deprecated type.
func (q *query) view(v url.Values) error {
	types := map[string]bool{"": false, "rsync": false, "cluster": true}
	ready, known := types[v.Get("type")]
	if !known {
		return errs.New(errs.Invalid, "Invalid query type")
	}
	if q.legacy = !v.Has("status"); !q.legacy {
		if ready, known = map[string]bool{"deployed": false, "ready": true}[v.Get("status")]; !known {
			return errs.New(errs.Invalid, "Invalid query status")
		}
	}
	q.ready = ready
	return nil
}

// amount reads how much is asked for. Of several lists the first one counts, as in EMCO.
func (q *query) amount(v url.Values) error {
	if o := v.Get("output"); o != "" {
		q.output = o
	}
	if q.output != "summary" && q.output != "all" && q.output != "detail" {
		return errs.New(errs.Invalid, "Invalid query output")
	}
	if q.instance = v.Get("instance"); v.Has("instance") && q.instance == "" {
		return errs.New(errs.Invalid, "Invalid query instance")
	}
	for _, list := range []string{"resources", "clusters", "apps"} {
		if v.Has(list) {
			q.list, q.output = list, "all"
		}
	}
	return nil
}

func (q *query) filters(v url.Values) (err error) {
	if q.apps, err = names(v["app"], "Invalid app query", isLabel); err != nil {
		return err
	}
	if q.resources, err = names(v["resource"], "Invalid resources query", isLabel); err != nil {
		return err
	}
	q.clusters, err = names(v["cluster"], "Invalid cluster query: write provider%2Bcluster", isCluster)
	return err
}

func names(given []string, complaint string, valid func(string) bool) (map[string]bool, error) {
	out := map[string]bool{}
	for _, name := range given {
		if !valid(name) {
			return nil, errs.New(errs.Invalid, complaint)
		}
		out[name] = true
	}
	return out, nil
}

func isLabel(s string) bool { return labelValue.MatchString(s) }

func isCluster(s string) bool {
	provider, cluster, found := strings.Cut(s, "+")
	return found && isLabel(provider) && isLabel(cluster)
}

// admits reports whether a filter lets a name pass; an empty one lets all.
func admits(filter map[string]bool, name string) bool {
	return len(filter) == 0 || filter[name]
}
