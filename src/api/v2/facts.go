package v2

import (
	"regexp"
	"strings"
)

// clusterFact matches a place that a fact of a cluster fills, such as {{ .cluster.kv.zone }}.
var clusterFact = regexp.MustCompile(`\{\{\s*\.cluster\.([^\s{}]+)\s*\}\}`)

// Names of the facts of a cluster. The key of a pair of the cluster follows FactKV.
const (
	FactName     = "name"
	FactProvider = "provider"
	FactKV       = "kv."
)

// NamesFacts reports whether a text has places that facts of clusters fill.
func NamesFacts(text string) bool { return clusterFact.MatchString(text) }

// FillFacts returns a text with all facts that it names. fact returns the fact of a name, such as
// "kv.zone"; FillFacts returns its first error.
func FillFacts(text string, fact func(name string) (string, error)) (string, error) {
	var failed error
	out := clusterFact.ReplaceAllStringFunc(text, func(place string) string {
		value, err := fact(clusterFact.FindStringSubmatch(place)[1])
		if err != nil && failed == nil {
			failed = err
		}
		return value
	})
	return out, failed
}

// facts refuses places that no fact fills: they would reach the chart as they are.
func (c *violationList) facts(field, text string) {
	for _, place := range clusterFact.FindAllStringSubmatch(text, -1) {
		if name := place[1]; name != FactName && name != FactProvider && !(strings.HasPrefix(name, FactKV) && len(name) > len(FactKV)) {
			c.fail(field, "there is no fact %s; use .cluster.name, .cluster.provider or .cluster.kv.KEY", quote(".cluster."+name))
		}
	}
}
