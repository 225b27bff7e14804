package fieldcheck_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/fieldcheck"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

func TestFieldsThatAKindDoesNotHave(t *testing.T) {
	t.Parallel()
	daemon := func(spec, container string) string {
		return "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}\nspec: {" + spec + "selector: {}, template: {spec: {containers: [{name: c, image: i" + container + "}]}}}\n"
	}
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"none":                   {daemon("", ""), nil},
		"of a DaemonSet":         {daemon("replicas: 3, ", ""), []string{"apps/v1 DaemonSet a in web/templates/x.yaml:1: DaemonSet has no field spec.replicas: clusters drop it, or refuse the object"}},
		"of a container":         {daemon("", ", limits: {cpu: 1}"), []string{"apps/v1 DaemonSet a in web/templates/x.yaml:1: DaemonSet has no field spec.template.spec.containers[0].limits: clusters drop it, or refuse the object"}},
		"in another case":        {daemon("", ", Command: [a]"), []string{"apps/v1 DaemonSet a in web/templates/x.yaml:1: DaemonSet has no field spec.template.spec.containers[0].Command: clusters drop it, or refuse the object"}},
		"more than are named":    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na: 1\nb: 1\nc: 1\nd: 1\ne: 1\nf: 1\ng: 1\n", []string{"v1 ConfigMap a in web/templates/x.yaml:1: ConfigMap has no field a, b, c, d, e and 2 more: clusters drop it, or refuse the object"}},
		"quantities and ports":   {"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80, targetPort: http}, {port: 81, targetPort: 8081}]}\n", nil},
		"beside a digest":        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {id: 9e123abc}}\ndate: {}\n", []string{"v1 ConfigMap a in web/templates/x.yaml:1: ConfigMap has no field date: clusters drop it, or refuse the object"}},
		"of a custom kind":       {"apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: a}\nanything: 1\n", nil},
		"of a wrong type":        {daemon("revisionHistoryLimit: many, what: 1, ", ""), []string{"apps/v1 DaemonSet a in web/templates/x.yaml:1: spec.revisionHistoryLimit does not take a string: API servers refuse the object"}},
		"a port in words":        {"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: eighty}]}\n", []string{"v1 Service a in web/templates/x.yaml:1: spec.ports.port does not take a string: API servers refuse the object"}},
		"a number as data":       {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {secret: 5}\n", []string{"v1 ConfigMap a in web/templates/x.yaml:1: data does not take a number: API servers refuse the object"}},
		"an amount":              {daemon("", ", resources: {limits: {memory: 5 GB}}"), []string{"apps/v1 DaemonSet a in web/templates/x.yaml:1: an amount is not of the form 500m, 2Gi or 10: API servers refuse the object"}},
		"no such group":          {"apiVersion: app/v1\nkind: Deployment\nmetadata: {name: a}\n", []string{"app/v1 Deployment a in web/templates/x.yaml:1: there is no group app: API servers refuse the object"}},
		"no such kind":           {"apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: a}\n", []string{"apps/v1 Deploymnt a in web/templates/x.yaml:1: Kubernetes has no Deploymnt in apps/v1: API servers refuse the object"}},
		"a wrong name":           {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Bad_Name}\n", []string{"v1 ConfigMap Bad_Name in web/templates/x.yaml:1: metadata.name \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character: API servers refuse the object"}},
		"a name of RBAC":         {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: \"system:a\"}\n", nil},
		"a wrong label":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {tier: web server!}}\n", []string{"v1 ConfigMap a in web/templates/x.yaml:1: the value of the label \"tier\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character: API servers refuse the object"}},
		"of one object of three": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndate: {}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: c}\n", []string{"v1 ConfigMap b in web/templates/x.yaml:5: ConfigMap has no field date: clusters drop it, or refuse the object"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fieldcheck.Findings(parsed(t, tt.text)); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// A definition among the objects gives the fields of its kind, as an API server prunes by its structural schema.
func TestFieldsThatADefinitionDoesNotHave(t *testing.T) {
	t.Parallel()
	const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              colour: {type: string}
              ports: {type: array, items: {type: object, properties: {port: {type: integer}}}}
              labels: {type: object, additionalProperties: {type: string}}
              parts: {type: object, additionalProperties: {type: object, properties: {size: {type: integer}}}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: object}}}
              loose: {type: object, additionalProperties: true}
              empty: {type: object}
              template: {type: object, x-kubernetes-embedded-resource: true, properties: {data: {type: string}}}
  - name: v1alpha1
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v0
---
`
	for spec, want := range map[string]string{
		"{colour: red, ports: [{port: 1}], labels: {a: b}, parts: {a: {size: 1}}}": "",
		"{color: red}": "spec.color",
		"{ports: [{port: 1}, {Port: 2, name: a}]}":                                       "spec.ports[1].Port, spec.ports[1].name",
		"{parts: {a: {weight: 1}}}":                                                      "spec.parts.a.weight",
		"{free: {a: {b: c}, known: {a: b}}}":                                             "spec.free.known.a",
		"{loose: {a: {b: c}}, empty: {a: b}}":                                            "spec.empty.a",
		"{template: {apiVersion: v1, kind: Pod, metadata: {name: a}, data: a, more: b}}": "spec.template.more",
		"red": "",
	} {
		for version, known := range map[string]bool{"v1": false, "v1alpha1": true, "v0": true, "v2": true} {
			got := fieldcheck.Findings(parsed(t, definition+"apiVersion: example.org/"+version+"\nkind: Widget\nmetadata: {name: a, labels: {a: b}}\nspec: "+spec+"\n"))
			var wanted []string
			if want != "" && !known {
				wanted = []string{"example.org/v1 Widget a in web/templates/x.yaml:29: Widget has no field " + want + ": clusters drop it, or refuse the object"}
			}
			if !slices.Equal(got, wanted) {
				t.Errorf("%s %s: got %q, want %q", version, spec, got, wanted)
			}
		}
	}
	broken := strings.Replace(definition, "properties:\n          spec:", "properties: [a]\n        x:\n          spec:", 1)
	if got := fieldcheck.Findings(parsed(t, broken+"apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: a}\nspec: {a: b}\n")); len(got) > 0 {
		t.Errorf("a definition that cannot be read gives %q", got)
	}
}

// The parser of quantities would need hours for these.
func TestHostileQuantitiesAreNotRead(t *testing.T) {
	t.Parallel()
	for _, amount := range []string{
		"1e-2147483647", `"1e-2147483647"`, `" 0.1E-100000000"`, `"` + strings.Repeat("9", 100_000) + `"`, `"e-2147483647"`, `"1e-2147483647 "`, `"+1e-999999999"`,
		`"\u00a01e-2147483647"`, `"1e-2147483647\u3000\u2028"`, `"\u00851e-2147483647"`,
	} {
		for _, text := range []string{"requests: {storage: %s}", "limits: {storage: %s}, x: 1"} {
			claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {resources: {" + fmt.Sprintf(text, amount) + "}}\n"
			if got := fieldcheck.Findings(parsed(t, claim)); len(got) > 0 && !strings.Contains(got[0], "an amount is not of the form") {
				t.Errorf("%.40s gives the findings %q", amount, got)
			}
		}
	}
}

func TestFindingsAreLimited(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%02d}\n%s: 1\n", i, strings.Repeat("x", 1000))
	}
	got := fieldcheck.Findings(parsed(t, text.String()))
	if len(got) != 21 || got[20] != "more faults, in the 80 objects from v1 ConfigMap c20 on" {
		t.Errorf("%d findings, the last is %s", len(got), got[len(got)-1])
	}
	if n := len(got[0]); n > 400 {
		t.Errorf("a finding has %d bytes", n)
	}
}

func parsed(t *testing.T, text string) []manifest.Object {
	t.Helper()
	objects, err := manifest.Parse("web/templates/x.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}
