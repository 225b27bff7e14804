package v2

import "fmt"

// DeploymentIntentGroup is one deployment of a composite app: its profiles, its overrides
// and its logical cloud.
type DeploymentIntentGroup struct {
	Named
	Spec DeploymentIntentGroupSpec `json:"spec"` // what to deploy, and with which values
}

// DeploymentIntentGroupSpec is the body of a deployment intent group.
type DeploymentIntentGroupSpec struct {
	Profile      string          `json:"compositeProfile" alias:"profile"`       // the composite profile with the values of the apps
	Version      string          `json:"version"`                                // the Helm release name
	LogicalCloud string          `json:"logicalCloud" alias:"logical-cloud"`     // the logical cloud whose clusters it may use
	Overrides    []OverrideValue `json:"overrideValues" alias:"override-values"` // values that win over those of charts and profiles
}

// OverrideValue sets Helm values of one app.
type OverrideValue struct {
	App      string            `json:"app" alias:"app-name"` // the app whose values these are
	Clusters []Selector        `json:"clusters,omitempty"`   // an addition to upstream's API: the clusters that get them; none: all
	Values   map[string]string `json:"values"`               // by the path of the value, such as image.tag; may name facts of clusters, such as {{ .cluster.kv.zone }}
}

// MaxRelease is the longest Helm release name.
const MaxRelease = 53

// maxValue is the longest override value, and the longest value of a group intent.
const maxValue = 128

// normalize makes absent override values an empty list; upstream EMCO refuses them.
func (g *DeploymentIntentGroup) normalize() {
	if g.Spec.Overrides == nil {
		g.Spec.Overrides = []OverrideValue{}
	}
}

// Validate checks metadata and spec. The version becomes a Helm release name, so it
// must be a DNS label; upstream EMCO checks that only when it instantiates.
func (g *DeploymentIntentGroup) Validate() error {
	c := begin(&g.Named)
	c.name("spec.compositeProfile", g.Spec.Profile)
	c.release("spec.version", g.Spec.Version)
	c.name("spec.logicalCloud", g.Spec.LogicalCloud)
	for i, o := range g.Spec.Overrides {
		at := fmt.Sprintf("spec.overrideValues[%d]", i)
		c.name(at+".app", o.App)
		if o.Values == nil {
			c.fail(at+".values", "missing; give a map of Helm keys to strings")
		}
		checkAll(c, at+".clusters", o.Clusters)
		for _, key := range sortedKeys(o.Values) {
			c.text(join(at+".values", key), o.Values[key], maxValue)
			c.facts(join(at+".values", key), o.Values[key])
		}
	}
	return c.err()
}

func (c *violationList) release(field, s string) {
	switch {
	case s == "":
		c.fail(field, "missing")
	case len(s) > MaxRelease || !labelPattern.MatchString(s):
		c.fail(field, "%s cannot be a Helm release name; use at most %d lower-case letters, digits and '-', with a letter or digit at both ends", quote(s), MaxRelease)
	}
}

// GroupIntent names, for each controller that takes part in a deployment, the
// intent that it carries out.
type GroupIntent struct {
	Named
	Spec GroupIntentSpec `json:"spec"` // the intents that take part
}

// GroupIntentSpec maps controller names to intent names.
type GroupIntentSpec struct {
	Intent map[string]string `json:"intent"` // genericPlacementIntent for the placement; other keys name controllers
}

// PlacementKey is the key of a group intent that selects the generic placement
// intent; it is not a controller.
const PlacementKey = "genericPlacementIntent"

// maxIntents bounds the entries of a group intent: each is looked up when it is written.
const maxIntents = 100

// Validate requires at least one intent; keys are names.
func (g *GroupIntent) Validate() error {
	c := begin(&g.Named)
	if len(g.Spec.Intent) == 0 {
		c.fail("spec.intent", "missing; give a map of controllers to intents, such as %s: NAME", PlacementKey)
	}
	if n := len(g.Spec.Intent); n > maxIntents {
		c.fail("spec.intent", "%d entries are more than %d", n, maxIntents)
		return c.err()
	}
	for _, key := range sortedKeys(g.Spec.Intent) {
		if !ValidName(key) {
			c.fail("spec.intent", "%s is not the name of a controller", quote(key))
		}
		c.text(join("spec.intent", key), g.Spec.Intent[key], maxValue)
	}
	return c.err()
}
