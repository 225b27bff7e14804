package views

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	maxGroups = 200    // of a fleet; the rest is one group
	maxCells  = 20_000 // letters of an answer
	otherKey  = "other"
)

// fleetGroups are the clusters that pass a query, by group.
type fleetGroups struct {
	clusters map[string][]string // in order of name
	order    []string            // the largest group first
	known    map[string]placement.Cluster
	sums     map[string]clusterSum
	mark     int64
}

// fleetParams are the parameters of the fleet.
var fleetParams = append([]string{"by", "state", "q"}, filterParams...)

// readFleet groups the clusters that a request asks for.
func (v *Views) readFleet(r *http.Request, further ...string) (out fleetGroups, err error) {
	values := r.URL.Query()
	if err := web.CheckQuery(values, slices.Concat(fleetParams, further)...); err != nil {
		return out, err
	}
	groupOf, err := grouping(values.Get("by"))
	if err != nil {
		return out, err
	}
	page := map[string][]string{"state": values["state"], "q": values["q"]}
	q, err := readPage(page, []string{""})
	if err != nil {
		return out, err
	}
	names, known, err := v.named(r.Context(), readFilter(values))
	if err != nil {
		return out, err
	}
	out.known, out.clusters = known, map[string][]string{}
	out.sums, out.mark = v.Tally.sums(names)
	for _, name := range names {
		if !q.admits(out.sums[name].state, name) {
			continue
		}
		for _, group := range groupOf(known[name]) {
			out.clusters[group] = append(out.clusters[group], name)
		}
	}
	out.limit()
	return out, nil
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
	return nil, errs.New(errs.Invalid, "Invalid query by: give provider, label, or label: and the beginning of labels")
}

// limit puts the smallest groups into one, if there are too many.
func (f *fleetGroups) limit() {
	for group := range f.clusters {
		f.order = append(f.order, group)
	}
	slices.SortFunc(f.order, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(f.clusters[b]), len(f.clusters[a])), cmp.Compare(a, b))
	})
	if len(f.order) <= maxGroups {
		return
	}
	var rest []string
	for _, group := range f.order[maxGroups-1:] {
		rest = append(rest, f.clusters[group]...)
		delete(f.clusters, group)
	}
	f.order = append(f.order[:maxGroups-1:maxGroups-1], otherKey)
	f.clusters[otherKey] = append(f.clusters[otherKey], rest...)
	slices.Sort(f.clusters[otherKey])
	f.order = slices.Compact(f.order)
}

// fleet answers with the counts of all clusters, and a letter for each.
func (v *Views) fleet(w http.ResponseWriter, r *http.Request) error {
	f, err := v.readFleet(r)
	if err != nil {
		return err
	}
	out := v2.FleetView{Mark: f.mark, Groups: []v2.FleetGroup{}}
	var clusters, pairs Counts
	many := 0
	for _, names := range f.clusters {
		many += len(names)
	}
	bin := max(1, (many+maxCells-1)/maxCells)
	for _, group := range f.order {
		var counts Counts
		var cells strings.Builder
		for chunk := range slices.Chunk(f.clusters[group], bin) {
			worst := Idle
			for _, name := range chunk {
				s := f.sums[name]
				worst = min(worst, s.state)
				counts[s.state]++
				clusters[s.state]++
				for state, n := range s.counts {
					pairs[state] += n
				}
			}
			cells.WriteByte(letters[worst])
		}
		out.Groups = append(out.Groups, v2.FleetGroup{
			Key: group, Clusters: len(f.clusters[group]), Counts: counts.answer(), Cells: cells.String(), Bin: bin,
		})
	}
	out.Clusters, out.Pairs = clusters.answer(), pairs.answer()
	return answer(w, r, &out, func(o *v2.FleetView) { o.At = v.Now().UTC() })
}

// nth answers with the cluster of a cell: cell i of a group.
func (v *Views) nth(w http.ResponseWriter, r *http.Request) error {
	f, err := v.readFleet(r, "group", "i")
	if err != nil {
		return err
	}
	values := r.URL.Query()
	i, err := strconv.Atoi(values.Get("i"))
	names := f.clusters[values.Get("group")]
	if err != nil || i < 0 || i >= len(names) {
		return errs.New(errs.NotFound, "the group "+strconv.Quote(values.Get("group"))+" has no cluster of this number; ask for the fleet again")
	}
	item, err := v.clusterRow(r.Context(), f.known[names[i]], f.sums[names[i]], v.Pairs.Cluster(v2.ClusterKey(names[i])))
	if err != nil {
		return err
	}
	return answer(w, r, &item, func(*v2.ClusterView) {})
}
