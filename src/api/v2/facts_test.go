package v2_test

import (
	"errors"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

func TestFactsFillTheirPlaces(t *testing.T) {
	t.Parallel()
	fact := func(name string) (string, error) {
		if name == "kv.none" {
			return "", errors.New("no such pair")
		}
		return "<" + name + ">", nil
	}
	for text, want := range map[string]string{
		"plain":               "plain",
		"{{ .cluster.name }}": "<name>",
		"a{{.cluster.kv.x-y.z}}b{{ .cluster.provider }}": "a<kv.x-y.z>b<provider>",
		"{{ .Values.a }} { .cluster.name }":              "{{ .Values.a }} { .cluster.name }",
	} {
		got, err := v2.FillFacts(text, fact)
		if err != nil || got != want || v2.NamesFacts(text) != (got != text) {
			t.Errorf("FillFacts(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := v2.FillFacts("{{ .cluster.kv.none }} {{ .cluster.name }}", fact); err == nil || err.Error() != "no such pair" {
		t.Errorf("a missing fact: %v", err)
	}
}

func TestUnknownFactsAreViolations(t *testing.T) {
	t.Parallel()
	g := v2.DeploymentIntentGroup{}
	g.Metadata.Name, g.Spec.Profile, g.Spec.Version, g.Spec.LogicalCloud = "g", "p", "r1", "lc"
	g.Spec.Overrides = []v2.OverrideValue{{App: "web", Values: map[string]string{
		"a": "{{ .cluster.kv. }}", "b": "{{ .cluster.size }}", "c": "{{ .cluster.kv.ok }}",
	}}}
	err := g.Validate()
	if err == nil || strings.Count(err.Error(), "there is no fact") != 2 || strings.Contains(err.Error(), "values.c") {
		t.Errorf("Validate = %v", err)
	}
}

// A masked value is the one of the entry for the same clusters.
func TestMaskedValuesBelongToTheirClusters(t *testing.T) {
	t.Parallel()
	of := func(clusters v2.Selector, password string) v2.OverrideValue {
		return v2.OverrideValue{App: "web", Clusters: []v2.Selector{clusters}, Values: map[string]string{"password": password}}
	}
	old := v2.DeploymentIntentGroup{Spec: v2.DeploymentIntentGroupSpec{Overrides: []v2.OverrideValue{
		of(v2.Selector{Provider: "p", Cluster: "a"}, "one"), of(v2.Selector{Provider: "p", Labels: []string{"x", "y"}}, "two"), of(v2.Selector{Provider: "p", Labels: []string{"x", "z"}}, "three"),
	}}}
	masked := old.Masked()
	if o := masked.Spec.Overrides[0]; o.Values["password"] != v2.Mask || len(o.Clusters) != 1 {
		t.Fatalf("masked: %+v", o)
	}
	if err := masked.Unmask(old); err != nil || masked.Spec.Overrides[0].Values["password"] != "one" || masked.Spec.Overrides[1].Values["password"] != "two" {
		t.Errorf("unmasked: %+v, %v", masked.Spec.Overrides, err)
	}
}
