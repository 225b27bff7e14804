package views

import (
	"net/http"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	maxHits     = 20 // of a search
	maxKindHits = 6  // of one kind
)

// search answers with the clusters, deployments, apps and labels that have a text in their
// names, and the commits whose names begin with it.
func (v *Views) search(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := web.CheckQuery(values, "q"); err != nil {
		return err
	}
	text := strings.ToLower(strings.TrimSpace(values.Get("q")))
	if text == "" {
		return errs.New(errs.Invalid, "Invalid query q: give a part of a name, or the first four digits of a commit")
	}
	keys, known, err := v.registered(r.Context(), pageFilter{})
	if err != nil {
		return err
	}
	groups, apps, err := v.registry.all(r.Context())
	if err != nil {
		return err
	}
	commits, err := v.commitHits(r.Context(), text)
	if err != nil {
		return err
	}
	out := v2.SearchView{Hits: append([]v2.SearchHit{}, commits...)}
	ofKind := map[string]int{}
	add := func(kind, name, title, sub, href string) {
		if len(out.Hits) < maxHits && ofKind[kind] < maxKindHits && strings.Contains(strings.ToLower(name), text) {
			ofKind[kind]++
			out.Hits = append(out.Hits, v2.SearchHit{Kind: kind, Title: title, Sub: sub, Href: href})
		}
	}
	sums, _ := v.Tally.ClusterSums(keys)
	labels := map[string]bool{}
	for _, key := range keys {
		add("cluster", string(key), string(key), sums[key].State.String(), "/v2/views/clusters/"+key.Provider()+"/"+key.Cluster())
		for _, l := range known[key].Labels {
			if !labels[l] {
				labels[l] = true
				add("label", l, l, "label", "/v2/views/clusters?label="+l)
			}
		}
	}
	sees := sightOf(r.Context())
	for _, g := range groups {
		if !sees.path(g.key) {
			continue
		}
		k, _ := v2.GroupOf(g.key)
		add("deployment", g.key, k.CompositeApp.Name+" "+k.CompositeApp.Version+" / "+k.Name, k.CompositeApp.Project, "/v2/views/"+g.key+"/matrix")
	}
	for _, key := range apps {
		if !sees.path(key) {
			continue
		}
		k, _ := v2.AppOf(key)
		add("app", k.Name, k.Name, k.CompositeApp.Project+", "+k.CompositeApp.Name+" "+k.CompositeApp.Version, "/v2/"+key)
	}
	return answer(w, r, &out, func(*v2.SearchView) {})
}
