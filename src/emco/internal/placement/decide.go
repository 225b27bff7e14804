package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Texts that upstream's clients know.
const (
	missingProvider = "Missing clusterProvider in an intent"
	missingCluster  = "Missing cluster or clusterLabel"
	bothGiven       = "Only one of cluster name or cluster label allowed"
	noClusters      = "No compatible clusters have been provided to the Deployment Intent Group"
)

// Decide places one app.
//
//   - Every cluster of every AllOf selector is mandatory; named twice counts once.
//   - A mandatory cluster that a filter refuses makes the request Invalid.
//   - Each AnyOf list, nested or at the top, is one group of alternatives. A group
//     that holds a chosen cluster already is met; otherwise the first admitted
//     candidate by key is chosen. A group without any is Invalid, and the error names
//     for each candidate why it was refused.
//   - A selector that is malformed, names an unknown cluster, or whose label no
//     cluster carries is Invalid, and so is an intent that asks for nothing.
//
// Errors of other kinds come from filters only.
func Decide(ctx context.Context, req Request, filters []Filter) (Decision, error) {
	e, g, err := admit(ctx, req, filters)
	if err != nil {
		return Decision{}, err
	}
	choose := e.choose
	if req.Preference.prefers() {
		choose = e.choosePreferred
	}
	c, err := choose(ctx, g)
	if err != nil {
		return Decision{}, err
	}
	if len(c.why) == 0 {
		text := noClusters
		if len(req.Intent.AllOf) == 0 && len(req.Intent.AnyOf) == 0 {
			text += ": no placement intent names clusters for the app"
		}
		return Decision{}, errs.New(errs.Invalid, text)
	}
	e.remark(c.why)
	return Decision{Clusters: slices.Sorted(maps.Keys(c.why)), Why: c.why, Refused: e.refused(), Spared: c.spared(), Scores: c.scores}, nil
}

// admit resolves the intent of a request, and runs the filters on the clusters that it selects.
func admit(ctx context.Context, req Request, filters []Filter) (*evaluator, resolvedIntent, error) {
	g, err := resolve(req)
	if err != nil {
		return nil, g, err
	}
	e := &evaluator{req: req, filters: filters, inventory: g.inventory, results: map[v2.ClusterKey]filterResult{}}
	if err := e.evaluate(ctx, g.candidates()); err != nil {
		return nil, g, err
	}
	return e, g, e.checkMandatory(g.mandatory)
}

type keySet = map[v2.ClusterKey]bool

// resolvedIntent is an intent whose selectors are resolved to cluster keys.
type resolvedIntent struct {
	inventory Inventory
	mandatory map[v2.ClusterKey]string // key to the term that names it, in words
	anyOf     [][]v2.ClusterKey        // each sorted, each key once
}

// candidates returns every cluster that the intent selects, sorted.
func (g resolvedIntent) candidates() []v2.ClusterKey {
	all := keySet{}
	for key := range g.mandatory {
		all[key] = true
	}
	for _, group := range g.anyOf {
		for _, key := range group {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// resolve turns selectors into keys. Its error lists everything that is wrong with the
// intent.
func resolve(req Request) (resolvedIntent, error) {
	g := resolvedIntent{inventory: req.Inventory, mandatory: map[v2.ClusterKey]string{}}
	var problems []string
	find := func(selectors ...Selector) []v2.ClusterKey {
		found := keySet{}
		for _, s := range selectors {
			keys, err := g.find(s)
			if err != nil {
				problems = append(problems, err.Error())
			}
			for _, key := range keys {
				found[key] = true
			}
		}
		return slices.Sorted(maps.Keys(found))
	}
	for i, t := range req.Intent.AllOf {
		switch {
		case len(t.AnyOf) == 0:
			for _, key := range find(t.Selector) {
				g.mandatory[key] = cmp.Or(g.mandatory[key], t.reason())
			}
		case !t.empty():
			problems = append(problems, fmt.Sprintf("allOf element %d holds both a selector and anyOf; use one element for each", i+1))
		default:
			g.anyOf = append(g.anyOf, find(t.AnyOf...))
		}
	}
	if len(req.Intent.AnyOf) > 0 {
		g.anyOf = append(g.anyOf, find(req.Intent.AnyOf...))
	}
	if len(problems) > 0 {
		return resolvedIntent{}, errs.New(errs.Invalid, strings.Join(problems, "; "))
	}
	return g, nil
}

// find returns the keys of the clusters that s selects, at least one if there is no error.
func (g resolvedIntent) find(s Selector) ([]v2.ClusterKey, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Cluster != "" {
		key := Cluster{Provider: s.Provider, Name: s.Cluster}.Key()
		if _, ok := g.inventory.Cluster(key); !ok {
			return nil, fmt.Errorf("cluster %s is not registered", key)
		}
		return []v2.ClusterKey{key}, nil
	}
	keys := Labelled(g.inventory, s.Provider, s.Labels)
	if len(keys) == 0 {
		return nil, fmt.Errorf("no cluster of provider %s has the %s", s.Provider, s.labels())
	}
	return keys, nil
}

// reason returns why a selector of allOf selects a cluster.
func (s Selector) reason() string {
	if len(s.Labels) > 0 {
		return "allOf: " + s.labels()
	}
	return "allOf: by name"
}

// labels names the labels of a selector.
func (s Selector) labels() string {
	if len(s.Labels) == 1 {
		return "label " + s.Labels[0]
	}
	return "labels " + strings.Join(s.Labels, " and ")
}

// Validate reports what a selector lacks, in upstream's words.
func (s Selector) Validate() error {
	where := func(text string) error { return errs.New(errs.Invalid, text+s.hint()) }
	switch {
	case s.Provider == "":
		return where(missingProvider)
	case s.Cluster == "" && len(s.Labels) == 0:
		return where(missingCluster)
	case s.Cluster != "" && len(s.Labels) > 0:
		return where(bothGiven)
	}
	return nil
}

// hint names the selector that an error is about.
func (s Selector) hint() string {
	var parts []string
	for _, p := range [][2]string{{"clusterProvider", s.Provider}, {"cluster", s.Cluster}, {"clusterLabel", strings.Join(s.Labels, " and ")}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

var errNoReason = errors.New("a filter gave a verdict without a reason")
