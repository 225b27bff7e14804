package v2

import (
	"fmt"
	"slices"
)

// PlacementIntent is a set of app intents.
type PlacementIntent struct {
	Named
}

// AppIntent selects the clusters of one app.
type AppIntent struct {
	Named
	Spec AppIntentSpec `json:"spec"` // the app and its clusters
}

// AppIntentSpec names the app and selects clusters.
type AppIntentSpec struct {
	App    string             `json:"app" alias:"app-name"` // the app to place
	Intent PlacementSelection `json:"intent"`               // the clusters: all of allOf, and one of anyOf
}

// PlacementSelection selects all clusters of allOf, and of each anyOf one, or as many as choose requests.
type PlacementSelection struct {
	AllOf []AllOf    `json:"allOf,omitempty"` // every cluster that an entry selects
	AnyOf []Selector `json:"anyOf,omitempty"` // one cluster of those that the entries select

	Choose *Choice `json:"choose,omitempty"` // how many clusters of each anyOf, and which; one, by name, if it is missing
}

// AllOf is either a selector or a list of alternatives, never both.
type AllOf struct {
	Selector
	AnyOf []Selector `json:"anyOf,omitempty"` // instead of a cluster or a label: one of these
}

// Selector names one cluster, or all clusters with a label or with several labels.
type Selector struct {
	Provider string   `json:"clusterProvider,omitempty" alias:"provider-name,cluster-provider"` // the provider of the clusters
	Cluster  string   `json:"cluster,omitempty" alias:"cluster-name"`                           // one cluster; either this, clusterLabel or clusterLabels
	Label    string   `json:"clusterLabel,omitempty" alias:"cluster-label-name"`                // all clusters of the provider with this label
	Labels   []string `json:"clusterLabels,omitempty"`                                          // an addition to upstream's API: all clusters of the provider that have all of these labels
}

// RequiredLabels returns the labels that the selected clusters all have; none if the selector names a cluster.
func (s Selector) RequiredLabels() []string {
	if s.Label != "" {
		return []string{s.Label}
	}
	return s.Labels
}

// equal reports whether two selectors have the same members.
func (s Selector) equal(other Selector) bool {
	return s.Provider == other.Provider && s.Cluster == other.Cluster && s.Label == other.Label && slices.Equal(s.Labels, other.Labels)
}

// Selectors returns every selector of the intent, in the order of the document.
func (s PlacementSelection) Selectors() []Selector {
	var all []Selector
	for _, one := range s.AllOf {
		if !one.Selector.equal(Selector{}) {
			all = append(all, one.Selector)
		}
		all = append(all, one.AnyOf...)
	}
	return append(all, s.AnyOf...)
}

// Validate checks the selectors; the texts are upstream's. An intent that selects
// nothing is accepted, as in upstream EMCO.
func (i *AppIntent) Validate() error {
	c := new(violationList)
	if i.Metadata.Name == "" {
		c.fail("metadata.name", "Missing name for the intent")
	} else {
		i.Metadata.check(c)
	}
	if i.Spec.App == "" {
		c.fail("spec.app", "Missing app for the intent")
	} else {
		c.name("spec.app", i.Spec.App)
	}
	i.Spec.Intent.check(c)
	return c.err()
}

// maxSelectors bounds the selectors of an intent: each is looked up when it is written.
const maxSelectors = 10_000

func (s PlacementSelection) check(c *violationList) {
	if n := len(s.Selectors()); n > maxSelectors {
		c.fail("spec.intent", "%d selectors are more than %d; select clusters by a label", n, maxSelectors)
		return
	}
	for i, one := range s.AllOf {
		at := fmt.Sprintf("spec.intent.allOf[%d]", i)
		switch {
		case len(one.AnyOf) == 0:
			one.Selector.check(c, at)
		case !one.Selector.equal(Selector{}):
			c.fail(at, "give either a selector or anyOf, not both")
		}
		checkAll(c, at+".anyOf", one.AnyOf)
	}
	checkAll(c, "spec.intent.anyOf", s.AnyOf)
	if s.Choose != nil {
		s.Choose.check(c)
	}
}

func checkAll(c *violationList, at string, selectors []Selector) {
	for i, s := range selectors {
		s.check(c, fmt.Sprintf("%s[%d]", at, i))
	}
}

func (s Selector) check(c *violationList, at string) {
	if s.Provider == "" {
		c.fail(at, "Missing clusterProvider in an intent")
	}
	if s.Cluster == "" && len(s.RequiredLabels()) == 0 {
		c.fail(at, "Missing cluster or clusterLabel")
	}
	if s.Cluster != "" && len(s.RequiredLabels()) > 0 {
		c.fail(at, "Only one of cluster name or cluster label allowed")
	}
	if s.Label != "" && len(s.Labels) > 0 {
		c.fail(at, "give either clusterLabel or clusterLabels, not both")
	}
	c.optionalName(at+".clusterProvider", s.Provider)
	c.optionalName(at+".cluster", s.Cluster)
	c.optionalName(at+".clusterLabel", s.Label)
	if len(s.Labels) > maxSelector {
		c.fail(at+".clusterLabels", "%d labels, at most %d are allowed", len(s.Labels), maxSelector)
		return
	}
	for i, label := range s.Labels {
		c.name(fmt.Sprintf("%s.clusterLabels[%d]", at, i), label)
	}
}
