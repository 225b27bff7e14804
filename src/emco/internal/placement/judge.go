package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// judge asks the filters about each candidate once and keeps what they said.
type judge struct {
	req       Request
	filters   []Filter
	inventory map[string]Cluster
	said      map[string]ruling
}

// ruling is the first refusal of a cluster, or an admission by all filters.
type ruling struct {
	Verdict
	filter int // which filter refused
}

// hear asks about all keys. A cluster that one filter refuses is not shown to the next.
func (j *judge) hear(ctx context.Context, keys []string) error {
	for _, key := range keys {
		r := ruling{Verdict: Verdict{Cluster: key, Admitted: true, Reason: "no filter objects"}}
		for i, f := range j.filters {
			v, err := f.Admit(ctx, j.req, j.inventory[key])
			if err == nil && v.Reason == "" {
				err = errNoReason
			}
			if err != nil {
				return fmt.Errorf("judge cluster %s for app %s: %w", key, j.req.App, err)
			}
			v.Cluster = key
			r = ruling{Verdict: v, filter: i}
			if !v.Admitted {
				break
			}
		}
		j.said[key] = r
	}
	return nil
}

// objections returns an error if a mandatory cluster was refused. It carries the
// words of the first filter that refused one, and the clusters that it refused.
func (j *judge) objections(mandatory set) error {
	refused := make([][]Verdict, len(j.filters))
	for _, v := range j.refused() {
		if r := j.said[v.Cluster]; mandatory[v.Cluster] {
			refused[r.filter] = append(refused[r.filter], v)
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
		return "mandatory clusters are refused: " + list(refused, reasoned)
	}
	return o.Objection() + ": " + list(refused, func(v Verdict) string { return v.Cluster })
}

// choose takes the mandatory clusters and one of each group that they leave open.
func (j *judge) choose(g groups) (set, error) {
	chosen := set{}
	for key := range g.mandatory {
		chosen[key] = true
	}
	for _, group := range g.anyOf {
		if slices.ContainsFunc(group, func(key string) bool { return chosen[key] }) {
			continue
		}
		i := slices.IndexFunc(group, func(key string) bool { return j.said[key].Admitted })
		if i < 0 {
			return nil, errs.New(errs.Invalid, noClusters+": no candidate of an anyOf is left: "+list(j.verdicts(group), reasoned))
		}
		chosen[group[i]] = true
	}
	return chosen, nil
}

// refused returns the verdicts on all refused clusters, sorted by cluster.
func (j *judge) refused() []Verdict {
	var out []Verdict
	for _, r := range j.said {
		if !r.Admitted {
			out = append(out, r.Verdict)
		}
	}
	slices.SortFunc(out, func(a, b Verdict) int { return strings.Compare(a.Cluster, b.Cluster) })
	return out
}

func (j *judge) verdicts(keys []string) []Verdict {
	out := make([]Verdict, len(keys))
	for i, key := range keys {
		out[i] = j.said[key].Verdict
	}
	return out
}

// maxListed bounds how many clusters an error names.
const maxListed = 20

// reasoned words a verdict as "<cluster> (<reason>)".
func reasoned(v Verdict) string { return v.Cluster + " (" + v.Reason + ")" }

// list words verdicts and joins them by commas, up to a cap.
func list(verdicts []Verdict, word func(Verdict) string) string {
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
