package orchestrator

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Placement returns where the current documents of a group place its apps, and why not
// elsewhere. It renders nothing.
func (g Queries) Placement(ctx context.Context, doc store.Doc) (out []v2.PlacementView, err error) {
	head, _, err := lifecycle.Head(ctx, g.contexts, doc)
	if err != nil {
		return nil, err
	}
	p, err := g.planner.Plan(ctx, doc, head.Deployment())
	if err != nil {
		return nil, err
	}
	for _, a := range p.Apps {
		if a.Refusal != nil {
			out = append(out, v2.PlacementView{App: a.Name, Verdict: "out", Reason: a.Refusal.Error()})
			continue
		}
		for _, cluster := range a.Decision.Clusters {
			out = append(out, v2.PlacementView{App: a.Name, Cluster: cluster, Verdict: "in", Reason: a.Decision.Why[cluster], Score: scoreOf(a, cluster)})
		}
		for _, verdict := range slices.Concat(a.Decision.Refused, a.Decision.Spared) {
			out = append(out, v2.PlacementView{App: a.Name, Cluster: verdict.Cluster, Verdict: "out", Reason: verdict.Reason, Score: scoreOf(a, verdict.Cluster)})
		}
	}
	return out, nil
}

// scoreOf returns the score of a cluster; nil if it has none.
func scoreOf(a plan.App, cluster v2.ClusterKey) *float64 {
	if score, ok := a.Decision.Scores[cluster]; ok {
		return &score
	}
	return nil
}

// placement answers where the current documents place the apps: the chosen clusters, and with
// ?explain=true also those that were left out, with reasons and scores.
func (g Queries) placement(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if err := web.CheckQuery(q, "explain", "app", "cluster", "limit", "continue"); err != nil {
		return err
	}
	explain := q.Get("explain")
	if explain != "" && explain != "true" && explain != "false" {
		return errs.New(errs.Invalid, "explain="+strconv.Quote(explain)+": write true or false")
	}
	page, err := web.ReadPage(q)
	if err != nil {
		return err
	}
	app, cluster := q.Get("app"), v2.ClusterKey(q.Get("cluster"))
	if app != "" {
		names, err := g.planner.AppNames(r.Context(), compositeApp(doc))
		if err != nil {
			return err
		}
		if !slices.Contains(names, app) {
			return errs.New(errs.Invalid, "Invalid app query: the deployment has no app "+strconv.Quote(app))
		}
	}
	all, err := g.Placement(r.Context(), doc)
	if err != nil {
		return err
	}
	out := v2.PlacementAnswer{Placements: []v2.PlacementView{}}
	if out.StatusSubject, err = subjectOf(doc); err != nil {
		return err
	}
	kept := slices.DeleteFunc(all, func(v v2.PlacementView) bool {
		return app != "" && v.App != app || cluster != "" && v.Cluster != cluster && v.Cluster != "" || explain != "true" && v.Verdict == "out" && v.Cluster != ""
	})
	out.Placements, out.Continue, err = web.Cut(page, kept, func(v v2.PlacementView) string { return v.App + "/" + string(v.Cluster) })
	if err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, out)
}
