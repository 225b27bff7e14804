package views

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	maxGroups = 200    // of a fleet; the rest is one group
	maxCells  = 20_000 // letters of an answer
	otherKey  = "other"
)

// fleetGroups are the clusters that pass a query, by group.
type fleetGroups struct {
	members map[string][]tally.Member // in order of the clusters' names
	order   []string                  // the largest group first
	known   map[v2.ClusterKey]placement.Cluster
	sums    map[v2.ClusterKey]tally.ClusterSum
	mark    int64
}

// fleetParams are the parameters of the fleet.
var fleetParams = append([]string{"by", "state", "q", "app"}, filterParams...)

// byDeployment is the value of the parameter by for groups that are deployments.
const byDeployment = "deployment"

// readFleet groups the clusters that a request asks for.
func (v *Views) readFleet(r *http.Request, further ...string) (out fleetGroups, err error) {
	values := r.URL.Query()
	if err := web.CheckQuery(values, slices.Concat(fleetParams, further)...); err != nil {
		return out, err
	}
	page := map[string][]string{"state": values["state"], "q": values["q"]}
	q, err := readPage(page, []string{""})
	if err != nil {
		return out, err
	}
	if err := v.checkApps(r.Context(), values["app"]); err != nil {
		return out, err
	}
	filter, err := readFilter(values)
	if err != nil {
		return out, err
	}
	keys, known, err := v.registered(r.Context(), filter)
	if err != nil {
		return out, err
	}
	out.known, out.members = known, map[string][]tally.Member{}
	out.sums, out.mark = v.Tally.ClusterSums(keys)
	if values.Get("by") == byDeployment {
		err = v.groupByDeployment(r.Context(), &out, q, values["app"])
	} else {
		err = v.groupByCluster(&out, q, values.Get("by"), values["app"], keys)
	}
	if err != nil {
		return out, err
	}
	out.limit()
	return out, nil
}

// groupByCluster puts clusters into groups by their providers or labels. With apps it leaves out
// clusters without one of them, and counts only these.
func (v *Views) groupByCluster(out *fleetGroups, q pageQuery, by string, apps []string, keys []v2.ClusterKey) error {
	groupOf, err := grouping(by)
	if err != nil {
		return err
	}
	var ofApps map[v2.ClusterKey]tally.Counts
	if len(apps) > 0 {
		ofApps = v.Tally.AppCounts(apps)
	}
	for _, cluster := range keys {
		m := tally.Member{Cluster: cluster, State: out.sums[cluster].State, Counts: out.sums[cluster].Counts}
		if len(apps) > 0 {
			counts, has := ofApps[cluster]
			if !has {
				continue
			}
			m.State, m.Counts = counts.Worst(), counts
		}
		if !q.admits(m.State, string(cluster)) {
			continue
		}
		for _, group := range groupOf(out.known[cluster]) {
			out.members[group] = append(out.members[group], m)
		}
	}
	return nil
}

// groupByDeployment puts clusters into the groups of the deployments on them, so that a cluster
// may be in several.
func (v *Views) groupByDeployment(ctx context.Context, out *fleetGroups, q pageQuery, apps []string) error {
	owners, err := v.owners(ctx)
	if err != nil {
		return err
	}
	sees := sightOf(ctx)
	for deployment, members := range v.Tally.Targets(apps) {
		group, owned := owners[deployment]
		if !owned || !sees.path(group) {
			continue // the group was deleted, and its pairs are leaving; or it is hidden
		}
		for _, m := range members {
			if _, registered := out.known[m.Cluster]; registered && q.admits(m.State, string(m.Cluster)) {
				out.members[group] = append(out.members[group], m)
			}
		}
		slices.SortFunc(out.members[group], func(a, b tally.Member) int { return cmp.Compare(a.Cluster, b.Cluster) })
	}
	return nil
}

// grouping returns the groups of a cluster, by the parameter by.
func grouping(by string) (func(placement.Cluster) []string, error) {
	prefix, labels := strings.CutPrefix(by, "label:")
	switch {
	case by == "", by == "provider":
		return func(c placement.Cluster) []string { return []string{c.Provider} }, nil
	case by == "label", labels:
		return func(c placement.Cluster) []string {
			for _, l := range slices.Sorted(slices.Values(c.Labels)) {
				if strings.HasPrefix(l, prefix) || by == "label" {
					return []string{l} // a cluster counts once: in the group of its first label
				}
			}
			return []string{otherKey}
		}, nil
	}
	return nil, errs.New(errs.Invalid, "Invalid query by: give provider, deployment, label, or label: and the beginning of labels")
}

// limit puts the smallest groups into one, if there are too many.
func (f *fleetGroups) limit() {
	for group := range f.members {
		f.order = append(f.order, group)
	}
	slices.SortFunc(f.order, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(f.members[b]), len(f.members[a])), cmp.Compare(a, b))
	})
	if len(f.order) <= maxGroups {
		return
	}
	var rest []tally.Member
	for _, group := range f.order[maxGroups-1:] {
		rest = append(rest, f.members[group]...)
		delete(f.members, group)
	}
	f.order = append(f.order[:maxGroups-1:maxGroups-1], otherKey)
	f.members[otherKey] = append(f.members[otherKey], rest...)
	slices.SortStableFunc(f.members[otherKey], func(a, b tally.Member) int { return cmp.Compare(a.Cluster, b.Cluster) })
	f.order = slices.Compact(f.order)
}

// fleet answers with the counts of all clusters, and a letter for each.
func (v *Views) fleet(w http.ResponseWriter, r *http.Request) error {
	f, err := v.readFleet(r)
	if err != nil {
		return err
	}
	out := v2.FleetView{Mark: f.mark, Groups: []v2.FleetGroup{}}
	worst, pairs := map[v2.ClusterKey]tally.State{}, tally.Counts{} // of clusters; each counts once
	many := 0
	for _, members := range f.members {
		many += len(members)
	}
	bin := max(1, (many+maxCells-1)/maxCells)
	for _, group := range f.order {
		var counts tally.Counts
		var cells strings.Builder
		for chunk := range slices.Chunk(f.members[group], bin) {
			letter := tally.Idle
			for _, m := range chunk {
				letter = min(letter, m.State)
				counts[m.State]++
				if before, counted := worst[m.Cluster]; !counted || m.State < before {
					worst[m.Cluster] = m.State
				}
				for state, n := range m.Counts {
					pairs[state] += n
				}
			}
			cells.WriteByte(tally.Letters[letter])
		}
		out.Groups = append(out.Groups, v2.FleetGroup{
			Key: group, Clusters: len(f.members[group]), Counts: counts.View(), Cells: cells.String(), Bin: bin,
		})
	}
	var clusters tally.Counts
	for _, s := range worst {
		clusters[s]++
	}
	out.Clusters, out.Pairs = clusters.View(), pairs.View()
	if sightOf(r.Context()).may("clusters", "") && (len(r.URL.Query()) == 0 || onlyGrouped(r.URL.Query())) {
		out.HourAgo = v.past.hourAgo(v.Now())
	}
	return answer(w, r, &out, func(o *v2.FleetView) { o.At = v.Now().UTC() })
}

// onlyGrouped reports whether a query asks for all clusters, in whatever groups.
func onlyGrouped(values url.Values) bool {
	return len(values) == 1 && values.Has("by") && values.Get("by") != byDeployment
}

// nth answers with the cluster of a cell: cell i of a group.
func (v *Views) nth(w http.ResponseWriter, r *http.Request) error {
	f, err := v.readFleet(r, "group", "i")
	if err != nil {
		return err
	}
	values := r.URL.Query()
	i, err := strconv.Atoi(values.Get("i"))
	members := f.members[values.Get("group")]
	if err != nil || i < 0 || i >= len(members) {
		return errs.New(errs.NotFound, "the group "+strconv.Quote(values.Get("group"))+" has no cluster of this number; ask for the fleet again")
	}
	cluster := members[i].Cluster
	item, err := v.clusterRow(r.Context(), f.known[cluster], f.sums[cluster], v.pairs(r.Context(), cluster))
	if err != nil {
		return err
	}
	return answer(w, r, &item, func(*v2.ClusterView) {})
}
