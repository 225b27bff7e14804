// Package placement decides on which clusters an app runs, and says why. The
// decision is pure: equal requests and filters give equal answers.
package placement

import "context"

// Intent says where an app shall run, as EMCO's app intents do. All clusters of all
// AllOf terms are mandatory; of AnyOf one cluster is taken.
type Intent struct {
	AllOf []Term
	AnyOf []Selector
}

// Term is one element of AllOf: either a selector, whose clusters are all
// mandatory, or a list of alternatives of which one cluster is taken. Never both.
type Term struct {
	Selector
	AnyOf []Selector
}

// Selector names one cluster, or all clusters of a provider that carry a label.
// Exactly one of Cluster and Label is set.
type Selector struct{ Provider, Cluster, Label string }

// Cluster is one registered cluster.
type Cluster struct {
	Provider, Name string
	Labels         []string
}

// Key returns "<provider>+<cluster>", the cluster's name wherever providers meet.
func (c Cluster) Key() string { return c.Provider + "+" + c.Name }

// Request is what is to be placed, and on what.
type Request struct {
	App       string
	Intent    Intent
	Inventory Inventory
}

// Inventory is the clusters that there are.
type Inventory interface {
	// Cluster returns the cluster with a key; false if there is none.
	Cluster(key string) (Cluster, bool)
	// Labelled returns the keys of a provider's clusters that carry a label, sorted. The
	// list must not be changed. As long as it is the same one, so is what is in it.
	Labelled(provider, label string) []string
}

// Verdict is what a filter says of one cluster.
type Verdict struct {
	Cluster  string // "<provider>+<cluster>"
	Admitted bool
	Reason   string // never empty
}

// Filter judges one cluster for one request. Admit gives no verdict without a
// reason, and changes neither req nor c; an error means that it could not judge,
// which ends the decision.
type Filter interface {
	Admit(ctx context.Context, req Request, c Cluster) (Verdict, error)
}

// Objector is optional: a filter that has its own words for the refusal of
// mandatory clusters. The names of the clusters follow the text.
type Objector interface {
	Objection() string
}

// Decision is where an app runs.
type Decision struct {
	Clusters []string          // sorted keys, each once, at least one
	Why      map[string]string // each of Clusters to the term of the intent that chose it, in words
	Refused  []Verdict         // candidates that a filter refused, sorted by cluster
	Spared   []Verdict         // candidates that are not needed, sorted by cluster
}

// Merge joins the intents of one app. Each top-level AnyOf stays a group of its own,
// so every intent is met by the result.
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
