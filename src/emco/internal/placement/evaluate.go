package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// evaluator asks the filters about each candidate once and keeps what they said.
type evaluator struct {
	req       Request
	filters   []Filter
	inventory Inventory
	results   map[string]filterResult
}

// filterResult is the first refusal of a cluster, or an admission by all filters.
type filterResult struct {
	Verdict
	filter int // which filter refused
}

// evaluate asks about all keys. A cluster that one filter refuses is not shown to the next.
func (j *evaluator) evaluate(ctx context.Context, keys []string) error {
	for _, key := range keys {
		cluster, _ := j.inventory.Cluster(key)
		r := filterResult{Verdict: Verdict{Cluster: key, Admitted: true, Reason: "no filter objects"}}
		for i, f := range j.filters {
			v, err := f.Admit(ctx, j.req, cluster)
			if err == nil && v.Reason == "" {
				err = errNoReason
			}
			if err != nil {
				return fmt.Errorf("judge cluster %s for app %s: %w", key, j.req.App, err)
			}
			v.Cluster = key
			r = filterResult{Verdict: v, filter: i}
			if !v.Admitted {
				break
			}
		}
		j.results[key] = r
	}
	return nil
}

// checkMandatory returns an error if a mandatory cluster was refused. It carries the
// words of the first filter that refused one, and the clusters that it refused.
func (j *evaluator) checkMandatory(mandatory map[string]string) error {
	refused := make([][]Verdict, len(j.filters))
	for _, v := range j.refused() {
		if mandatory[v.Cluster] != "" {
			i := j.results[v.Cluster].filter
			refused[i] = append(refused[i], v)
		}
	}
	for i, verdicts := range refused {
		if len(verdicts) > 0 {
			return errs.New(errs.Invalid, objection(j.filters[i], verdicts))
		}
	}
	return nil
}

// objection words the refusal of mandatory clusters by one filter.
func objection(f Filter, refused []Verdict) string {
	o, ok := f.(Objector)
	if !ok {
		return "mandatory clusters are refused: " + joinVerdicts(refused, reasoned)
	}
	return o.Objection() + ": " + joinVerdicts(refused, func(v Verdict) string { return v.Cluster })
}

// clusterChoice is what is taken of an intent's clusters, and what is not.
type clusterChoice struct {
	why  map[string]string // taken key to the term that took it, in words
	idle map[string]string // key of an alternative to the one that was taken in its place
}

// choose takes the mandatory clusters and one of each group that they leave open.
func (j *evaluator) choose(g resolvedIntent) (clusterChoice, error) {
	c := clusterChoice{why: maps.Clone(g.mandatory), idle: map[string]string{}}
	for _, group := range g.anyOf {
		i := slices.IndexFunc(group, func(key string) bool { return c.why[key] != "" })
		if i < 0 {
			i = slices.IndexFunc(group, func(key string) bool { return j.results[key].Admitted })
		}
		if i < 0 {
			return clusterChoice{}, errs.New(errs.Invalid, noClusters+": no candidate of an anyOf is left: "+joinVerdicts(j.verdicts(group), reasoned))
		}
		c.take(group, group[i])
		for _, key := range group {
			if j.results[key].Admitted {
				c.idle[key] = group[i]
			}
		}
	}
	return c, nil
}

// take notes that a group's choice is key, unless key was taken before.
func (c clusterChoice) take(group []string, key string) {
	if c.why[key] == "" {
		c.why[key] = fmt.Sprintf("anyOf: the first admitted of %d by name", len(group))
	}
}

// spared returns the alternatives that were not needed, sorted by cluster.
func (c clusterChoice) spared() []Verdict {
	var out []Verdict
	for _, key := range slices.Sorted(maps.Keys(c.idle)) {
		if c.why[key] == "" {
			out = append(out, Verdict{Cluster: key, Admitted: true, Reason: "anyOf takes " + c.idle[key] + " instead"})
		}
	}
	return out
}

// refused returns the verdicts on all refused clusters, sorted by cluster.
func (j *evaluator) refused() []Verdict {
	var out []Verdict
	for _, r := range j.results {
		if !r.Admitted {
			out = append(out, r.Verdict)
		}
	}
	slices.SortFunc(out, func(a, b Verdict) int { return strings.Compare(a.Cluster, b.Cluster) })
	return out
}

func (j *evaluator) verdicts(keys []string) []Verdict {
	out := make([]Verdict, len(keys))
	for i, key := range keys {
		out[i] = j.results[key].Verdict
	}
	return out
}

// maxListed bounds how many clusters an error names.
const maxListed = 20

// reasoned words a verdict as "<cluster> (<reason>)".
func reasoned(v Verdict) string { return v.Cluster + " (" + v.Reason + ")" }

// joinVerdicts words verdicts and joins them by commas, up to a cap.
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
