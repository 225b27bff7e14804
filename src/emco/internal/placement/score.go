package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Preference determines how many clusters of each AnyOf are chosen, and which. The zero Preference is
// the first admitted cluster by name.
type Preference struct {
	Count    int // 0 is one
	SpreadBy Property
	Scorers  []Scorer
}

// Property reads a fact of a cluster; false if the cluster does not have it. facts are its
// key-value pairs.
type Property func(c Cluster, facts map[string]string) (value string, ok bool)

// Scorer compares clusters by a number.
type Scorer struct {
	Name   string
	Weight float64 // above 0
	Lowest bool    // a lower number is better
	// Value returns the number of a cluster; false if it has none, which is worse than any.
	Value func(c Cluster, facts map[string]string) (number float64, ok bool)
}

// FactsOf returns the key-value pairs of a cluster.
type FactsOf func(ctx context.Context, cluster v2.ClusterKey) (map[string]string, error)

// prefers reports whether clusters are chosen by more than their names.
func (p Preference) prefers() bool {
	return p.Count > 1 || p.SpreadBy != nil || len(p.Scorers) > 0
}

// count returns how many clusters of each AnyOf are chosen.
func (p Preference) count() int { return max(p.Count, 1) }

// candidate is an admitted cluster with its score.
type candidate struct {
	key   v2.ClusterKey
	score float64 // 0 to 1
	why   string  // the parts of the score
	group string  // value of the property that clusters are spread by
	round int     // the number of better candidates of its group, and of chosen clusters there
}

// rank orders the admitted clusters of a group, best first. It is a pure function of the
// documents: equal documents give an equal order, and ties are resolved by name.
func (e *evaluator) rank(ctx context.Context, keys []v2.ClusterKey, chosen map[v2.ClusterKey]string) ([]candidate, error) {
	p := e.req.Preference
	out := make([]candidate, 0, len(keys))
	numbers := make([][]float64, len(p.Scorers)) // by scorer and candidate; NaN: none
	for _, key := range keys {
		cluster, _ := e.inventory.Cluster(key)
		facts, err := e.facts(ctx, key)
		if err != nil {
			return nil, err
		}
		c := candidate{key: key}
		if p.SpreadBy != nil {
			c.group, _ = p.SpreadBy(cluster, facts)
		}
		for i, s := range p.Scorers {
			number, ok := s.Value(cluster, facts)
			if !ok || math.IsInf(number, 0) {
				number = math.NaN()
			}
			numbers[i] = append(numbers[i], number)
		}
		out = append(out, c)
	}
	weights := 0.0
	for i, s := range p.Scorers {
		weights += s.Weight
		s.add(out, numbers[i])
	}
	for i := range out {
		if weights > 0 {
			out[i].score /= weights
		}
	}
	slices.SortFunc(out, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.key, b.key)) })
	if p.SpreadBy == nil {
		return out, nil
	}
	rounds := map[string]int{}
	for _, c := range out {
		if chosen[c.key] != "" {
			rounds[c.group]++
		}
	}
	for i, c := range out {
		if chosen[c.key] == "" {
			out[i].round = rounds[c.group]
			rounds[c.group]++
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return cmp.Compare(a.round, b.round) })
	return out, nil
}

// add adds a scorer's part to the scores of candidates: 1 for the best number, 0 for the worst and
// for none.
func (s Scorer) add(candidates []candidate, numbers []float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, n := range numbers {
		if !math.IsNaN(n) {
			low, high = min(low, n), max(high, n)
		}
	}
	for i, n := range numbers {
		c := &candidates[i]
		sep := ""
		if c.why != "" {
			sep = ", "
		}
		if math.IsNaN(n) {
			c.why += sep + s.Name + " unknown"
			continue
		}
		part := 1.0
		if high > low {
			part = (n - low) / (high - low)
			if s.Lowest {
				part = 1 - part
			}
		}
		c.score += part * s.Weight
		c.why += fmt.Sprintf("%s%s %.6g", sep, s.Name, n)
	}
}

// facts returns the key-value pairs of a cluster.
func (e *evaluator) facts(ctx context.Context, key v2.ClusterKey) (map[string]string, error) {
	if e.req.Facts == nil {
		return nil, nil
	}
	facts, err := e.req.Facts(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read the facts of cluster %s: %w", key, err)
	}
	return facts, nil
}

// choosePreferred chooses the mandatory clusters, and of each group as many of the best clusters as
// the preference asks for. Chosen clusters of the group count.
func (e *evaluator) choosePreferred(ctx context.Context, g resolvedIntent) (clusterChoice, error) {
	c := clusterChoice{why: maps.Clone(g.mandatory), unneeded: map[v2.ClusterKey]v2.ClusterKey{}, scores: map[v2.ClusterKey]float64{}, spare: map[v2.ClusterKey]string{}}
	count := e.req.Preference.count()
	for _, group := range g.anyOf {
		missing := count
		for _, key := range group {
			if c.why[key] != "" {
				missing--
			}
		}
		ranked, err := e.rank(ctx, e.admitted(group), c.why)
		if err != nil {
			return c, err
		}
		for i, r := range ranked {
			c.scores[r.key] = r.score
			switch {
			case c.why[r.key] != "":
			case missing > 0:
				c.why[r.key] = fmt.Sprintf("anyOf: number %d of %d%s", i+1, len(ranked), r.reason())
				delete(c.spare, r.key)
				missing--
			default:
				c.spare[r.key] = fmt.Sprintf("anyOf: number %d of %d%s, and %d are wanted", i+1, len(ranked), r.reason(), count)
			}
		}
		if missing > 0 {
			return c, errs.New(errs.Invalid, fmt.Sprintf("%s: an anyOf wants %d clusters, and %d are left: %s", noClusters, count, count-missing, joinVerdicts(e.refusedOf(group), reasoned)))
		}
	}
	return c, nil
}

// reason describes a score.
func (c candidate) reason() string {
	var parts []string
	if c.why != "" {
		parts = append(parts, fmt.Sprintf("score %.3f: %s", c.score, c.why))
	}
	if c.group != "" {
		parts = append(parts, "in "+c.group)
	}
	if len(parts) == 0 {
		return " by name"
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// refusedOf returns the verdicts on refused clusters among keys.
func (e *evaluator) refusedOf(keys []v2.ClusterKey) (out []Verdict) {
	for _, key := range keys {
		if r := e.results[key]; !r.Admitted {
			out = append(out, r.Verdict)
		}
	}
	return out
}
