package views

import (
	"context"
	"net/http"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
)

// Planner places the apps of groups by their current documents.
type Planner interface {
	// Placement returns the verdicts on all clusters that the intents of a group name, in any
	// order. An app that cannot be placed has one verdict without a cluster.
	Placement(ctx context.Context, group store.Doc) ([]v2.PlacementView, error)
}

// The verdicts.
const (
	placedIn  = "in"
	placedOut = "out"
)

// placement answers with a page of clusters, and why each gets an app or does not.
func (v *Views) placement(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	q, err := readPage(values, []string{"name"}, "app", "verdict")
	if err == nil && q.states != nil {
		err = errs.New(errs.Invalid, "Invalid query state: placements have none; use verdict")
	}
	verdict := values.Get("verdict")
	if err == nil && verdict != "" && verdict != placedIn && verdict != placedOut {
		err = errs.New(errs.Invalid, "Invalid query verdict: give in or out")
	}
	if err != nil {
		return err
	}
	doc, err := v.groupOf(r)
	if err != nil {
		return err
	}
	all, err := v.Planner.Placement(r.Context(), doc)
	if err != nil {
		return err
	}
	var placed []string
	for _, p := range all {
		placed = append(placed, p.App)
	}
	if err := v.checkGroupApps(r.Context(), values["app"], string(doc.Key), placed); err != nil {
		return err
	}
	out := v2.PlacementViews{Items: []v2.PlacementView{}}
	var rows []pageRow
	items, sees := map[string]v2.PlacementView{}, sightOf(r.Context())
	for _, p := range all {
		if p.Verdict != placedIn && !sees.provider(p.Cluster.Provider()) {
			continue
		}
		if apps := values["app"]; len(apps) > 0 && !slices.Contains(apps, p.App) || !q.admits(tally.None, string(p.Cluster)) {
			continue
		}
		if p.Verdict == placedIn {
			out.In++
		} else {
			out.Out++
		}
		if verdict == "" || verdict == p.Verdict {
			name := string(p.Cluster) + " " + p.App
			rows, items[name] = append(rows, pageRow{name, name}), p
		}
	}
	out.Total = len(rows)
	rows, out.Continue = q.cut(rows)
	for _, row := range rows {
		out.Items = append(out.Items, items[row.name])
	}
	return answer(w, r, &out, func(o *v2.PlacementViews) { o.At = v.Now().UTC() })
}
