package views

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// owners returns the keys of the groups that own deployments.
func (v *Views) owners(ctx context.Context) (map[v2.DeploymentID]string, error) {
	groups, _, err := v.registry.all(ctx)
	if err != nil {
		return nil, err
	}
	heads := v.Tally.Heads()
	out := make(map[v2.DeploymentID]string, len(groups))
	for _, g := range groups {
		h, there := heads[g.head]
		if there && h.Owns() {
			out[h.Deployment()] = g.key
		}
	}
	return out, nil
}

// deployments answers with a page of deployment intent groups.
func (v *Views) deployments(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	q, err := readPage(values, []string{"-worst", "name"}, "project")
	if err != nil {
		return err
	}
	groups, _, err := v.registry.all(r.Context())
	if err != nil {
		return err
	}
	sums, mark := v.Tally.DeploymentSums()
	heads, sees := map[string]appcontext.HeadID{}, sightOf(r.Context())
	var rows []pageRow
	for _, g := range groups {
		if !sees.path(g.key) {
			continue
		}
		k, _ := v2.GroupOf(g.key)
		if projects := values["project"]; len(projects) > 0 && !slices.Contains(projects, k.CompositeApp.Project) {
			continue
		}
		s := sums[g.head]
		state := s.State(v.takeUps.has(s.Head))
		if !q.admits(state, g.key) {
			continue
		}
		heads[g.key] = g.head
		key := g.key
		if q.sort == "-worst" {
			key = worstFirst(state, g.key)
		}
		rows = append(rows, pageRow{key, g.key})
	}
	out := v2.DeploymentViews{ViewPage: v2.ViewPage{Mark: mark, Total: len(rows)}, Items: []v2.DeploymentView{}}
	rows, out.Continue = q.cut(rows)
	for _, row := range rows {
		item, err := v.deploymentRow(r.Context(), row.name, sums[heads[row.name]])
		if err != nil {
			return err
		}
		if moved := sums[heads[row.name]].Head.MovedTo; moved != "" {
			item.MovedTo = sums[moved].Head.Document
		}
		out.Items = append(out.Items, item)
	}
	return answer(w, r, &out, func(o *v2.DeploymentViews) { o.At = v.Now().UTC() })
}

// deploymentRow returns a row of a page.
func (v *Views) deploymentRow(ctx context.Context, path string, s tally.DeploymentSum) (v2.DeploymentView, error) {
	takenUp := v.takeUps.has(s.Head)
	out := v2.DeploymentView{
		Path: path, State: s.State(takenUp).String(), Lifecycle: s.Head.State.String(),
		Clusters: s.Clusters, Counts: s.Counts.View(), Why: s.Head.Failure, Foreign: s.Edited,
	}
	appFailed := ""
	if s.Head.Rev > 0 && s.Head.Owns() {
		rev, err := v.revision(ctx, s.Head.UID, s.Head.Rev)
		if err != nil && !errs.Is(err, errs.NotFound) {
			return out, err
		}
		out.Revision, out.Kind, out.Author, out.Reason, out.Since = s.Head.Rev, rev.Kind, rev.Author, rev.Reason, rev.At
		out.Apps = len(rev.Apps)
		for _, a := range rev.Apps {
			if a.Failure != nil && appFailed == "" {
				appFailed = a.Name + ": " + a.Failure.Reason
				out.Why = cmp.Or(out.Why, appFailed)
			}
		}
	}
	out.Deployed = s.Deployed(takenUp, appFailed != "")
	out.Conditions = conditions(s, takenUp, appFailed)
	if out.Why == "" && s.Head.Op != nil {
		out.Why = s.Head.Op.Kind + ": the revision is being made"
		if s.Head.Op.Hooks {
			out.Why = s.Head.Op.Kind + ": it waits for hooks"
		}
	}
	out.Why = cmp.Or(out.Why, unmet(out.Conditions))
	return out, nil
}

// groupOf returns the document of the group that a request names.
func (v *Views) groupOf(r *http.Request) (store.Doc, error) {
	names, err := web.Vars(r)
	if err != nil {
		return store.Doc{}, err
	}
	doc, err := v.DB.Get(r.Context(), store.Key(web.Group(names).StoreKey()))
	if errs.Is(err, errs.NotFound) {
		err = errs.New(errs.NotFound, "DeploymentIntentGroup not found")
	}
	return doc, err
}
