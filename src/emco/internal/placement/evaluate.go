package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// evaluator runs the filters once per candidate and keeps the results.
type evaluator struct {
	req       Request
	filters   []Filter
	inventory Inventory
	results   map[v2.ClusterKey]filterResult
}

// filterResult is the first refusal of a cluster, or an admission by all filters.
type filterResult struct {
	Verdict
	filter int // index of the filter that refused
}

// evaluate runs the filters on all keys. After a refusal it skips the other filters.
func (e *evaluator) evaluate(ctx context.Context, keys []v2.ClusterKey) error {
	for _, key := range keys {
		cluster, _ := e.inventory.Cluster(key)
		r := filterResult{Verdict: Verdict{Cluster: key, Admitted: true, Reason: "no filter objects"}}
		for i, f := range e.filters {
			v, err := f.Admit(ctx, e.req, cluster)
			if err == nil && v.Reason == "" {
				err = errNoReason
			}
			if err != nil {
				return fmt.Errorf("judge cluster %s for app %s: %w", key, e.req.App, err)
			}
			v.Cluster, v.Remark = key, joinRemarks(r.Remark, v.Remark)
			r = filterResult{Verdict: v, filter: i}
			if !v.Admitted {
				break
			}
		}
		e.results[key] = r
	}
	return nil
}

// checkMandatory returns an error if a mandatory cluster was refused. It has the text of
// the first filter that refused one, and the clusters that this filter refused.
func (e *evaluator) checkMandatory(mandatory map[v2.ClusterKey]string) error {
	refused := make([][]Verdict, len(e.filters))
	for _, v := range e.refused() {
		if mandatory[v.Cluster] != "" {
			i := e.results[v.Cluster].filter
			refused[i] = append(refused[i], v)
		}
	}
	for i, verdicts := range refused {
		if len(verdicts) > 0 {
			return errs.New(errs.Invalid, objection(e.filters[i], verdicts))
		}
	}
	return nil
}

// objection is the error text for mandatory clusters that a filter refused.
func objection(f Filter, refused []Verdict) string {
	o, ok := f.(Objector)
	if !ok {
		return "mandatory clusters are refused: " + joinVerdicts(refused, reasoned)
	}
	text, remedy := o.Objection()
	return text + ": " + joinVerdicts(refused, func(v Verdict) string { return string(v.Cluster) }) + "; " + remedy
}

// clusterChoice is the chosen clusters of an intent, and the alternatives that were not
// needed.
type clusterChoice struct {
	why      map[v2.ClusterKey]string        // reason by chosen key
	unneeded map[v2.ClusterKey]v2.ClusterKey // chosen key by key of the alternative that it made unnecessary
	spare    map[v2.ClusterKey]string        // why a scored alternative was not needed
	scores   map[v2.ClusterKey]float64       // of alternatives
}

// choose chooses the mandatory clusters, and one cluster of each group that has none yet.
func (e *evaluator) choose(_ context.Context, g resolvedIntent) (clusterChoice, error) {
	c := clusterChoice{why: maps.Clone(g.mandatory), unneeded: map[v2.ClusterKey]v2.ClusterKey{}}
	for _, group := range g.anyOf {
		i := slices.IndexFunc(group, func(key v2.ClusterKey) bool { return c.why[key] != "" })
		if i < 0 {
			i = slices.IndexFunc(group, func(key v2.ClusterKey) bool { return e.results[key].Admitted })
		}
		if i < 0 {
			return clusterChoice{}, e.noneLeft(group)
		}
		c.take(group, group[i])
		for _, key := range group {
			if e.results[key].Admitted {
				c.unneeded[key] = group[i]
			}
		}
	}
	return c, nil
}

// noneLeft is the error for a group without an admitted cluster.
func (e *evaluator) noneLeft(group []v2.ClusterKey) error {
	return errs.New(errs.Invalid, noClusters+": no candidate of an anyOf is left: "+joinVerdicts(e.verdicts(group), reasoned))
}

// admitted returns the clusters among keys that no filter refused.
func (e *evaluator) admitted(keys []v2.ClusterKey) (out []v2.ClusterKey) {
	for _, key := range keys {
		if e.results[key].Admitted {
			out = append(out, key)
		}
	}
	return out
}

// remark adds the filters' remarks on chosen clusters to the reasons for them.
func (e *evaluator) remark(why map[v2.ClusterKey]string) {
	for key, reason := range why {
		why[key] = joinRemarks(reason, e.results[key].Remark)
	}
}

func joinRemarks(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// take records a group's choice, unless the key is chosen already.
func (c clusterChoice) take(group []v2.ClusterKey, key v2.ClusterKey) {
	if c.why[key] == "" {
		c.why[key] = fmt.Sprintf("anyOf: the first admitted of %d by name", len(group))
	}
}

// spared returns the alternatives that were not needed, sorted by cluster.
func (c clusterChoice) spared() []Verdict {
	var out []Verdict
	for _, key := range slices.Sorted(maps.Keys(c.unneeded)) {
		if c.why[key] == "" {
			out = append(out, Verdict{Cluster: key, Admitted: true, Reason: "anyOf takes " + string(c.unneeded[key]) + " instead"})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.spare)) {
		out = append(out, Verdict{Cluster: key, Admitted: true, Reason: c.spare[key]})
	}
	return out
}

// refused returns the verdicts on all refused clusters, sorted by cluster.
func (e *evaluator) refused() []Verdict {
	var out []Verdict
	for _, r := range e.results {
		if !r.Admitted {
			out = append(out, r.Verdict)
		}
	}
	slices.SortFunc(out, func(a, b Verdict) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

func (e *evaluator) verdicts(keys []v2.ClusterKey) []Verdict {
	out := make([]Verdict, len(keys))
	for i, key := range keys {
		out[i] = e.results[key].Verdict
	}
	return out
}

// maxListed bounds how many clusters an error names.
const maxListed = 20

// reasoned returns a verdict as "<cluster> (<reason>)".
func reasoned(v Verdict) string { return string(v.Cluster) + " (" + v.Reason + ")" }

// joinVerdicts joins the texts of verdicts by commas, up to maxListed.
func joinVerdicts(verdicts []Verdict, word func(Verdict) string) string {
	more := ""
	if n := len(verdicts) - maxListed; n > 0 {
		verdicts, more = verdicts[:maxListed], fmt.Sprintf(", and %d more", n)
	}
	parts := make([]string, len(verdicts))
	for i, v := range verdicts {
		parts[i] = word(v)
	}
	return strings.Join(parts, ", ") + more
}
