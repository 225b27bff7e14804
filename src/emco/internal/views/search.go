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
// names, the commits whose names begin with it, and what a number in Git belongs to.
func (v *Views) search(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := web.CheckQuery(values, "q"); err != nil {
		return err
	}
	text := strings.ToLower(strings.TrimSpace(values.Get("q")))
	if text == "" {
		return errs.New(errs.Invalid, "Invalid query q: give a part of a name, the first four digits of a commit, or the number of a deployment in Git")
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
	sees := sightOf(r.Context())
	out := v2.SearchView{Hits: append([]v2.SearchHit{}, commits...)}
	out.Hits = append(out.Hits, v.ownerHits(deploymentIn(text), sees)...)
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
	for _, g := range groups {
		if !sees.path(g.key) {
			continue
		}
		k, _ := v2.GroupOf(g.key)
		add("deployment", g.key, titleOf(k), k.CompositeApp.Project, "/v2/views/"+g.key+"/matrix")
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

// titleOf returns the title of a hit that is a deployment intent group.
func titleOf(k v2.GroupKey) string {
	return k.CompositeApp.Name + " " + k.CompositeApp.Version + " / " + k.Name
}

// deploymentIn returns the deployment that a text may name: by its number, or by a path in Git with its folder.
func deploymentIn(text string) v2.DeploymentID {
	if _, below, ok := strings.Cut(text, "context/"); ok {
		text, _, _ = strings.Cut(below, "/")
	}
	return v2.DeploymentID(text)
}

// ownerHits returns the deployment intent group, or the other document, that decides what the folders of a deployment hold.
func (v *Views) ownerHits(id v2.DeploymentID, sees *callerAccess) (hits []v2.SearchHit) {
	for _, h := range v.Tally.Heads() {
		if h.Deployment() != id || !h.Owns() || !sees.path(h.Document) {
			continue
		}
		hit := v2.SearchHit{Kind: "document", Title: h.Document, Sub: "context/" + string(id), Href: "/v2/" + h.Document}
		if k, ok := v2.GroupOf(h.Document); ok {
			hit.Kind, hit.Title, hit.Href = "deployment", titleOf(k), "/v2/views/"+h.Document+"/matrix"
		}
		hits = append(hits, hit)
	}
	return hits
}
