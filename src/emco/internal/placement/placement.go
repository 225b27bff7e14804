// Package placement decides on which clusters an app runs, and explains why. Decisions are equal
// for equal requests, verdicts of filters and facts, which it reads through Request.Facts.
package placement

import (
	"context"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// Intent selects the clusters of an app, as upstream's app intents do. All clusters of all
// AllOf terms are mandatory; of AnyOf one cluster is chosen.
type Intent struct {
	AllOf []Term
	AnyOf []Selector
}

// Term is one element of AllOf: either a selector, whose clusters are all mandatory, or a
// list of alternatives: one of their clusters is chosen. Never both.
type Term struct {
	Selector
	AnyOf []Selector
}

// Selector names one cluster, or all clusters of a provider that carry all of the labels.
// Exactly one of Cluster and Labels is set.
type Selector struct {
	Provider, Cluster string
	Labels            []string
}

func (s Selector) empty() bool { return s.Provider == "" && s.Cluster == "" && len(s.Labels) == 0 }

// Cluster is one registered cluster.
type Cluster struct {
	Provider, Name string
	Labels         []string
}

// Key identifies the cluster across providers.
func (c Cluster) Key() v2.ClusterKey {
	return v2.NewClusterKey(c.Provider, c.Name)
}

// Request is an app to place.
type Request struct {
	App        string
	Intent     Intent
	Inventory  Inventory
	Preference Preference
	Facts      FactsOf // nil: clusters have none
}

// Inventory is the registered clusters.
type Inventory interface {
	// Cluster returns the cluster with a key; false if there is none.
	Cluster(key v2.ClusterKey) (Cluster, bool)
	// Labelled returns the keys of a provider's clusters that carry a label, sorted.
	// Callers must not change the list. The same list always has the same content.
	Labelled(provider, label string) []v2.ClusterKey
}

// Labelled returns the keys of a provider's clusters that carry all of the labels, of which there is at least one, sorted.
// Callers must not change the list.
func Labelled(in Inventory, provider string, labels []string) []v2.ClusterKey {
	keys := in.Labelled(provider, labels[0])
	for _, label := range labels[1:] {
		carriers := in.Labelled(provider, label)
		keys = slices.DeleteFunc(slices.Clone(keys), func(key v2.ClusterKey) bool {
			_, found := slices.BinarySearch(carriers, key)
			return !found
		})
	}
	return keys
}

// Places are the clusters that documents give the apps of a deployment, and what the apps are rendered from there. They are
// shared and never change.
type Places struct {
	Cloud    string                     // UID of the document of the logical cloud
	Clusters map[string][]v2.ClusterKey // by app, in order; without apps that cannot be placed
	Sources  map[string]string          // by app: the digest of what it is rendered from; without apps that cannot be rendered
}

// Bytes is about how much memory places take; nil takes none.
func (p *Places) Bytes() int {
	if p == nil {
		return 0
	}
	n := 256
	for _, clusters := range p.Clusters {
		n += 64 + 16*len(clusters) // their names are those of the inventory
	}
	for app, sources := range p.Sources {
		n += 64 + len(app) + len(sources)
	}
	return n
}

// Verdict is a filter's decision on one cluster.
type Verdict struct {
	Cluster  v2.ClusterKey
	Admitted bool
	Reason   string // never empty
	Remark   string // shown after the reason for a chosen cluster; may be empty
}

// Filter decides whether a cluster may run an app. Admit always gives a reason and changes
// neither req nor c. An error means that it could not decide, and ends the placement.
type Filter interface {
	Admit(ctx context.Context, req Request, c Cluster) (Verdict, error)
}

// Objector is optional: a filter with its own text for the refusal of mandatory clusters.
// The names of the clusters follow the text, and then what to do.
type Objector interface {
	Objection() (text, remedy string)
}

// Decision is where an app runs.
type Decision struct {
	Clusters []v2.ClusterKey           // sorted keys, each once, at least one
	Why      map[v2.ClusterKey]string  // by cluster: which term of the intent selected it
	Refused  []Verdict                 // candidates that a filter refused, sorted by cluster
	Spared   []Verdict                 // candidates that are not needed, sorted by cluster
	Scores   map[v2.ClusterKey]float64 // of candidates, from 0 to 1; nil without a preference
}

// Merge joins the intents of one app. Each top-level AnyOf stays a separate group, so the
// result satisfies every intent.
func Merge(intents ...Intent) Intent {
	if len(intents) == 1 {
		return intents[0]
	}
	var all Intent
	for _, i := range intents {
		all.AllOf = append(all.AllOf, i.AllOf...)
		if len(i.AnyOf) > 0 {
			all.AllOf = append(all.AllOf, Term{AnyOf: i.AnyOf})
		}
	}
	return all
}
