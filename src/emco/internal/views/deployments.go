package views

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// deploymentSum is what the tally knows of a deployment.
type deploymentSum struct {
	head     appcontext.Head
	counts   Counts
	apps     []string // sorted
	clusters int
}

// allHeads returns all heads by id.
func (t *Tally) allHeads() map[appcontext.HeadID]appcontext.Head {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.heads)
}

// deploymentSums returns what is known of all deployments, by their heads.
func (t *Tally) deploymentSums() (map[appcontext.HeadID]deploymentSum, int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make(map[appcontext.HeadID]deploymentSum, len(t.heads))
	for id, h := range t.heads {
		s := deploymentSum{head: h}
		if d := t.deployments[h.Deployment()]; d != nil && h.Owns() {
			s.counts, s.clusters, s.apps = d.counts, len(d.targets), d.apps
		}
		out[id] = s
	}
	return out, t.mark
}

// owners returns the keys of the groups that own deployments.
func (v *Views) owners(ctx context.Context) (map[v2.DeploymentID]string, error) {
	groups, _, err := v.registry.all(ctx)
	if err != nil {
		return nil, err
	}
	heads := v.Tally.allHeads()
	out := make(map[v2.DeploymentID]string, len(groups))
	for _, g := range groups {
		h, there := heads[g.head]
		if there && h.Owns() {
			out[h.Deployment()] = g.key
		}
	}
	return out, nil
}

// deployed returns upstream's deployedStatus, by the rules of package statusview.
func (s deploymentSum) deployed(takenUp, appFailed bool) string {
	failed, open := s.counts[Failed] > 0 || appFailed, !takenUp || s.counts[Progressing]+s.counts[Blocked]+s.counts[Leaving] > 0
	switch h := s.head; {
	case !h.Owns():
		return ""
	case h.Stopped && h.Gone && !h.State.Live():
		return v2.StatusTerminateFailed
	case h.Stopped:
		return v2.StatusInstantiateFailed
	case h.Op != nil:
		return v2.StatusInstantiating
	case h.Failure != "":
		return v2.StatusInstantiateFailed
	case h.Gone && takenUp && s.counts.Sum() == 0:
		return v2.StatusTerminated
	case h.Gone && takenUp && s.counts.Sum() == s.counts[Failed]:
		return v2.StatusTerminateFailed
	case h.Gone:
		return v2.StatusTerminating
	case h.Rev == 0:
		return ""
	case open:
		return v2.StatusInstantiating
	case failed:
		return v2.StatusInstantiateFailed
	}
	return v2.StatusInstantiated
}

// state returns how bad a deployment is.
func (s deploymentSum) state(takenUp bool) State {
	worst := s.counts.Worst()
	switch {
	case s.head.Owns() && s.head.Failure != "" && s.head.Op == nil:
		return Failed
	case s.head.Op != nil || !takenUp:
		return min(worst, Progressing)
	}
	return worst
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
	sums, mark := v.Tally.deploymentSums()
	heads := map[string]appcontext.HeadID{}
	var rows []row
	for _, g := range groups {
		k, _ := v2.GroupOf(g.key)
		if projects := values["project"]; len(projects) > 0 && !slices.Contains(projects, k.CompositeApp.Project) {
			continue
		}
		s := sums[g.head]
		state := s.state(v.takeUps.has(s.head))
		if !q.admits(state, g.key) {
			continue
		}
		heads[g.key] = g.head
		key := g.key
		if q.sort == "-worst" {
			key = worstFirst(state, g.key)
		}
		rows = append(rows, row{key, g.key})
	}
	out := v2.DeploymentViews{ViewPage: v2.ViewPage{Mark: mark, Total: len(rows)}, Items: []v2.DeploymentView{}}
	rows, out.Continue = q.cut(rows)
	for _, row := range rows {
		item, err := v.deploymentRow(r.Context(), row.name, sums[heads[row.name]])
		if err != nil {
			return err
		}
		if moved := sums[heads[row.name]].head.MovedTo; moved != "" {
			item.MovedTo = sums[moved].head.Subject
		}
		out.Items = append(out.Items, item)
	}
	return answer(w, r, &out, func(o *v2.DeploymentViews) { o.At = v.Now().UTC() })
}

// deploymentRow returns a row of a page.
func (v *Views) deploymentRow(ctx context.Context, path string, s deploymentSum) (v2.DeploymentView, error) {
	takenUp := v.takeUps.has(s.head)
	out := v2.DeploymentView{
		Path: path, State: s.state(takenUp).String(), Lifecycle: s.head.State.String(),
		Clusters: s.clusters, Counts: s.counts.answer(), Why: s.head.Failure,
	}
	appFailed := false
	if s.head.Rev > 0 && s.head.Owns() {
		rev, err := v.revision(ctx, s.head.UID, s.head.Rev)
		if err != nil && !errs.Is(err, errs.NotFound) {
			return out, err
		}
		out.Revision, out.Kind, out.Author, out.Reason, out.Since = s.head.Rev, rev.Kind, rev.Author, rev.Reason, rev.At
		out.Apps = len(rev.Apps)
		for _, a := range rev.Apps {
			if a.Failure != nil && !appFailed {
				appFailed = true
				if out.Why == "" {
					out.Why = a.Name + ": " + a.Failure.Reason
				}
			}
		}
	}
	out.Deployed = s.deployed(takenUp, appFailed)
	if out.Why == "" && s.head.Op != nil {
		out.Why = s.head.Op.Kind + ": the revision is being made"
	}
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
