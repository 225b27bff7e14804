package manifest

import (
	"strings"
	"testing"
)

func TestF76AListNeedsItems(t *testing.T) {
	t.Parallel()
	for items, want := range map[string]string{
		`"x"`:        "x.yaml:2: document 1: is a list whose items are no list; give items as a list of objects",
		"{a: b}":     "x.yaml:2: document 1: is a list whose items are no list; give items as a list of objects",
		"":           "",
		"[]":         "",
		"[{a: b}]":   "x.yaml:2: document 1: item 1: apiVersion is missing",
		"[{}, text]": "x.yaml:2: document 1: item 1: apiVersion is missing",
	} {
		_, err := Parse("x.yaml", []byte("# a list\n{apiVersion: v1, kind: List, items: "+items+"}\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("items: %s: got %v, want %q", items, err, want)
		}
	}
}

// Null members of built-in kinds are dropped when an object is completed. Those that mean
// something stay: entries of maps with keys of the user's choice, elements of lists, and
// everything in custom kinds and their definitions.
func TestF01NullsAreDropped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{
			"an empty member of a workload", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a, annotations:}\nspec: {replicas: , template: {spec: {containers: [{name: c, env: [{name: E, value: }], securityContext: ~}]}}}\n",
			`"spec":{"template":{"spec":{"containers":[{"env":[{"name":"E"}],"name":"c"}]}}}`,
		},
		{
			"entries of maps", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {l: }}\ndata: {k: }\nimmutable:\n",
			`{"apiVersion":"v1","data":{"k":null},"kind":"ConfigMap","metadata":{"labels":{"l":null},"name":"a"}}`,
		},
		{"a selector", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selector: {app: }, clusterIP: }\n", `"spec":{"selector":{"app":null}}`},
		{"a list", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{args: [~, b], command: }]}\n", `"spec":{"containers":[{"args":[null,"b"]}]}`},
		{"a custom kind", "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\nspec: {values: {none: }}\n", `"spec":{"values":{"none":null}}`},
		{"a definition", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: {versions: [{schema: {openAPIV3Schema: {default: }}}]}\n", `"openAPIV3Schema":{"default":null}`},
	} {
		objects, err := Parse("x.yaml", []byte(tt.text))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		full, err := Complete(objects, Defaults{})
		if err != nil || len(full) != 1 || !strings.Contains(string(full[0].Content), tt.want) {
			t.Errorf("%s: %v, %s; want it to contain %s", tt.name, err, full[0].Content, tt.want)
		}
	}
}
