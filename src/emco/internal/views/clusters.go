package views

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// registered returns the registered clusters that pass a filter and that the caller may see, in order of
// their keys.
func (v *Views) registered(ctx context.Context, f pageFilter) (keys []v2.ClusterKey, byKey map[v2.ClusterKey]placement.Cluster, err error) {
	fleet, err := v.Inventory.Fleet(ctx)
	if err != nil {
		return nil, nil, err
	}
	byKey = map[v2.ClusterKey]placement.Cluster{}
	sees := sightOf(ctx)
	for key, c := range fleet.Clusters() {
		if f.admits(c.Provider, c.Labels) && sees.provider(c.Provider) {
			keys, byKey[key] = append(keys, key), c
		}
	}
	slices.Sort(keys)
	return keys, byKey, nil
}

// clusters answers with a page of clusters.
func (v *Views) clusters(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	q, err := readPage(values, []string{"-worst", "name", "lastHeard"}, filterParams...)
	if err != nil {
		return err
	}
	filter, err := readFilter(values)
	if err != nil {
		return err
	}
	keys, known, err := v.registered(r.Context(), filter)
	if err != nil {
		return err
	}
	sums, mark := v.Tally.ClusterSums(keys)
	var rows []pageRow
	for _, cluster := range keys {
		s, name := sums[cluster], string(cluster)
		if !q.admits(s.State, name) {
			continue
		}
		key := name
		switch q.sort {
		case "-worst":
			key = worstFirst(s.State, name)
		case "lastHeard":
			key = s.Heard.UTC().Format("2006-01-02T15:04:05.000000000") + name
		}
		rows = append(rows, pageRow{key, name})
	}
	out := v2.ClusterViews{ViewPage: v2.ViewPage{Mark: mark, Total: len(rows)}, Items: []v2.ClusterView{}}
	rows, out.Continue = q.cut(rows)
	for _, row := range rows {
		cluster := v2.ClusterKey(row.name)
		item, err := v.clusterRow(r.Context(), known[cluster], sums[cluster], v.pairs(r.Context(), cluster))
		if err != nil {
			return err
		}
		out.Items = append(out.Items, item)
	}
	return answer(w, r, &out, func(o *v2.ClusterViews) { o.At = v.Now().UTC() })
}

// clusterRow returns a row of a page.
func (v *Views) clusterRow(ctx context.Context, c placement.Cluster, s tally.ClusterSum, pairs []mirror.ClusterPair) (v2.ClusterView, error) {
	key := v2.NewClusterKey(c.Provider, c.Name)
	out := v2.ClusterView{
		Provider: c.Provider, Cluster: c.Name, Labels: slices.Sorted(slices.Values(c.Labels)),
		State: s.State.String(), Counts: s.Counts.View(), LastHeard: s.Heard.UTC(), Why: tally.WorstReason(pairs, s),
	}
	if s.Heard.IsZero() {
		out.LastHeard = time.Time{}
	}
	if s.Silent {
		out.SilentSince = out.LastHeard
	}
	doc, err := v.DB.Get(ctx, store.Key(key.StoreKey()))
	if errs.Is(err, errs.NotFound) {
		return out, nil // it was deleted since
	}
	if err != nil {
		return out, err
	}
	document, err := store.Decode[v2.Cluster](doc)
	out.Type, out.Branch = document.Spec.GitOps.Type, document.Spec.GitOps.Shard
	return out, err
}

// maxPairs bounds the pairs of one cluster in an answer.
const maxPairs = 200

// cluster answers with one cluster and what runs on it.
func (v *Views) cluster(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	key, err := web.Cluster(r)
	if err != nil {
		return err
	}
	_, known, err := v.registered(r.Context(), pageFilter{})
	if err != nil {
		return err
	}
	c, there := known[key]
	if !there {
		return errs.New(errs.NotFound, "Cluster not found")
	}
	sums, mark := v.Tally.ClusterSums([]v2.ClusterKey{key})
	pairs := v.pairs(r.Context(), key)
	out := v2.ClusterDetail{Mark: mark, Places: []v2.PlaceView{}}
	if out.ClusterView, err = v.clusterRow(r.Context(), c, sums[key], pairs); err != nil {
		return err
	}
	if out.Capacity, err = v.Capacity(r.Context(), key); err != nil {
		return err
	}
	owners, err := v.owners(r.Context())
	if err != nil {
		return err
	}
	for _, e := range pairs {
		if e.State != nil {
			out.Places = append(out.Places, pairView(e, sums[key], owners[e.UID]))
		}
	}
	slices.SortFunc(out.Places, func(a, b v2.PlaceView) int {
		sa, _ := tally.ParseState(a.State)
		sb, _ := tally.ParseState(b.State)
		return cmp.Or(cmp.Compare(sa, sb), cmp.Compare(a.Project, b.Project), cmp.Compare(a.App, b.App), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
	if out.More = max(0, len(out.Places)-maxPairs); out.More > 0 {
		out.Places = out.Places[:maxPairs]
	}
	return answer(w, r, &out, func(o *v2.ClusterDetail) { o.At = v.Now().UTC() })
}

// pairView returns a pair of a group.
func pairView(e mirror.ClusterPair, s tally.ClusterSum, group string) v2.PlaceView {
	state, why := tally.Describe(e.Entry, s)
	p := e.State.Common()
	out := v2.PlaceView{
		Name: e.App, State: state.String(), Phase: string(p.Phase), Revision: p.Rev, Since: p.At,
		Commit: p.Commit, Blocked: p.Blocked, Why: why,
	}
	if k, ok := v2.GroupOf(group); ok {
		out.Project, out.App, out.Version, out.Group = k.CompositeApp.Project, k.CompositeApp.Name, k.CompositeApp.Version, k.Name
	}
	if r := e.Report; r != nil {
		out.Reconciled = r.Commit
		if r.Ready {
			out.ReadySince = r.Since
		}
	}
	return out
}
