package refschema_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/refschema"
)

// written returns the path of a file with a text.
func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const firewall = `name: firewall
resources:
  - name: firewallRule
    parent: firewallIntent
    references:
      - name: app
      - name: cluster
        type: many
  - name: firewallIntent
    parent: deploymentIntentGroup
    collection: firewalls
    spec: {type: object, required: [mode], properties: {mode: {enum: [open, closed]}}, additionalProperties: false}
`

const groupPath = "projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups/{deploymentIntentGroup}"

func read(t *testing.T, texts ...string) []refschema.Type {
	t.Helper()
	var files []string
	for i, text := range texts {
		files = append(files, written(t, fmt.Sprintf("%d.yaml", i), text))
	}
	types, err := refschema.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// A parent may stand behind its children, and in another file.
func TestTypesStandBelowTheirParents(t *testing.T) {
	t.Parallel()
	types := read(t, "name: logs\nresources: [{name: firewallLog, parent: firewallRule, references: [{name: firewallIntent}]}]\n", firewall)
	var got []string
	for _, k := range types {
		got = append(got, k.Kind()+" in "+k.ParentKind()+": "+k.Collection()+" + "+k.Item())
	}
	want := []string{
		"FirewallIntent in DeploymentIntentGroup: " + groupPath + "/firewalls + {firewallIntent}",
		"FirewallRule in FirewallIntent: " + groupPath + "/firewalls/{firewallIntent}/firewall-rules + {firewallRule}",
		"FirewallLog in FirewallRule: " + groupPath + "/firewalls/{firewallIntent}/firewall-rules/{firewallRule}/firewall-logs + {firewallLog}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the types are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A bad schema is refused with file, line and field, and all faults at once.
func TestABadSchemaIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	entry := func(text string) string { return "name: x\nresources:\n  - " + text + "\n" }
	good := "name: rule\n    parent: project\n"
	var many strings.Builder
	many.WriteString("name: x\nresources:\n")
	for i := range 65 {
		fmt.Fprintf(&many, "  - {name: rule%d, parent: project}\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":             {"\tname: [", "s.yaml: yaml: "},
		"empty":               {"", "s.yaml: the file is empty"},
		"two documents":       {entry(good) + "---\n" + entry("name: other\n    parent: project"), "s.yaml:6: the file: must have one schema; write the second one into a file of its own"},
		"a list":              {"[]", "s.yaml:1: the file: must be an object with name, resources"},
		"no name":             {"resources: [{name: rule, parent: project}]", "s.yaml:1: name: missing"},
		"no types":            {"name: x\nresources: []", "s.yaml:1: resources: a list with at least one type is needed"},
		"another member":      {entry("name: rule\n    parent: project\n    parnet: project"), "s.yaml:5: resources[0].parnet: there is no such member; there are name, parent, collection, references, spec"},
		"a member twice":      {entry("name: rule\n    name: rule\n    parent: project"), "s.yaml:4: resources[0].name: given twice"},
		"no parent":           {entry("name: rule"), "s.yaml:3: resources[0].parent: missing"},
		"an unknown parent":   {entry("name: rule\n    parent: projects"), `s.yaml:4: resources[0].parent: there is no type "projects"; there are rule, app, `},
		"a loop":              {"name: x\nresources:\n  - {name: a, parent: b}\n  - {name: b, parent: a}\n", "s.yaml:3: resources[0].parent: a is below more than 3 types of schemas, or below itself"},
		"too deep":            {"name: x\nresources:\n  - {name: a, parent: project}\n  - {name: b, parent: a}\n  - {name: c, parent: b}\n  - {name: d, parent: c}\n  - {name: e, parent: d}\n", "s.yaml:7: resources[4].parent: e is below more than 3 types"},
		"a bad name":          {entry("name: Rule/x\n    parent: project"), `s.yaml:3: resources[0].name: "Rule/x" is no name of a type`},
		"a long name":         {entry("name: " + strings.Repeat("a", 64) + "\n    parent: project"), "is no name of a type"},
		"a name of EMCO":      {entry("name: cluster\n    parent: project\n    collection: things"), "s.yaml:3: resources[0].name: EMCO has a type cluster of its own"},
		"a variable of EMCO":  {entry("name: compositeApp\n    parent: project"), "EMCO"},
		"a name twice":        {"name: x\nresources:\n  - {name: a, parent: project}\n  - {name: a, parent: cluster}\n", "s.yaml:4: resources[1].name: a is registered in "},
		"a collection twice":  {"name: x\nresources:\n  - {name: a, parent: project, collection: things}\n  - {name: b, parent: project, collection: things}\n", "s.yaml:4: resources[1].collection: a in "},
		"a bad collection":    {entry("name: rule\n    parent: project\n    collection: a/b"), `s.yaml:5: resources[0].collection: "a/b" is no part of a path`},
		"EMCO's collection":   {entry("name: rule\n    parent: project\n    collection: apps"), `s.yaml:5: resources[0].collection: EMCO's own paths have "apps"`},
		"EMCO's action":       {entry("name: rule\n    parent: deploymentIntentGroup\n    collection: instantiate"), `EMCO's own paths have "instantiate"`},
		"a number":            {entry("name: 7\n    parent: project"), "s.yaml:3: resources[0].name: must be a text"},
		"references":          {entry(good + "    references: app"), "s.yaml:5: resources[0].references: must be a list"},
		"an unknown target":   {entry(good + "    references:\n      - name: apps"), `s.yaml:6: resources[0].references[0].name: there is no type "apps"`},
		"a map of references": {entry(good + "    references:\n      - name: app\n        map: intent"), "s.yaml:7: resources[0].references[0].map: there is no such member; there are name, type"},
		"a kind of reference": {entry(good + "    references:\n      - name: app\n        type: map"), `s.yaml:7: resources[0].references[0].type: "map" is not known`},
		"too many references": {entry(good + "    references: [" + strings.Repeat("{name: app}, ", 17) + "]"), "s.yaml:5: resources[0].references: it has 17; there may be 16"},
		"a bad JSON schema":   {entry(good + "    spec: {type: objekt}"), "s.yaml:5: resources[0].spec: the schema cannot be used"},
		"a schema elsewhere":  {entry(good + "    spec: {$ref: 'file:///etc/hosts'}"), "s.yaml:5: resources[0].spec: the schema cannot be used"},
		"too many types":      {many.String(), "s.yaml: the schemas register 65 types; there may be 64"},
		"a large file":        {"# " + strings.Repeat("x", 256<<10), "s.yaml: the file has more than 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := written(t, "s.yaml", c.text)
			_, err := refschema.Read([]string{file})
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), filepath.Dir(file)+"/", ""), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
	_, err := refschema.Read([]string{written(t, "s.yaml", "name: x\nresources:\n  - {name: a}\n  - {name: b, parent: nobody}\n")})
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two faults are reported as %v", err)
	}
	_, err = refschema.Read([]string{written(t, "s.yaml", "name: x\nresources:\n  - {name: a, parent: project}\n  - {name: a, parent: project}\n")})
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("one fault is reported as %v", err)
	}
	if _, err := refschema.Read([]string{filepath.Join(t.TempDir(), "none.yaml")}); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := refschema.Read(make([]string, 17)); err == nil || !strings.Contains(err.Error(), "17 files; there may be 16") {
		t.Errorf("17 files: %v", err)
	}
}

func TestReferencesComeFromTheMembersOfSpec(t *testing.T) {
	t.Parallel()
	types := read(t, firewall)
	rule := types[1]
	vars := map[string]string{"project": "shop", "compositeApp": "till", "compositeAppVersion": "v1", "deploymentIntentGroup": "autumn", "firewallIntent": "f"}
	for spec, want := range map[string]string{
		``:                                   ``,
		`{"port":80}`:                        ``,
		`{"app":""}`:                         ``,
		`{"app":"web"}`:                      "projects/shop/composite-apps/till/v1/apps/web",
		`{"app":"web","compositeApp":"net"}`: "projects/shop/composite-apps/net/v1/apps/web",
		`{"from":[{"app":"web"},{"app":"db"},{"app":"web"}]}`:                                        "projects/shop/composite-apps/till/v1/apps/db projects/shop/composite-apps/till/v1/apps/web",
		`{"clusterProvider":"edge","at":[{"cluster":"a"},{"cluster":"b","clusterProvider":"core"}]}`: "cluster-providers/core/clusters/b cluster-providers/edge/clusters/a",
	} {
		got, err := rule.References(json.RawMessage(spec), vars)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s refers to %v, %v; want %s", spec, got, err, want)
		}
	}
	for spec, want := range map[string]string{
		`{"cluster":"a"}`:     "- spec: cluster needs clusterProvider beside it",
		`{"app":"../../web"}`: "- spec: app is no name",
		`{"from":[{"app":"web"},{"at":{"cluster":"a"}}]}`: "- spec.from[1].at: cluster needs clusterProvider beside it",
		`{"to":{"app":"../web"}}`:                         "- spec.to: app is no name",
	} {
		if err := rule.Check(json.RawMessage(spec), vars); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
	var many strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&many, `,{"app":"a%d"}`, i)
	}
	if err := rule.Check(json.RawMessage(`{"all":[`+many.String()[1:]+`]}`), vars); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "it refers to more than 1000 documents") {
		t.Errorf("1001 references: %v", err)
	}
}

// The errors of a schema name places, not values, which may be secrets.
func TestASpecIsComparedWithItsSchema(t *testing.T) {
	t.Parallel()
	intent := read(t, firewall)[0]
	for spec, want := range map[string]string{
		`{"mode":"open"}`:                   "",
		``:                                  "missing property 'mode'",
		`{"mode":"s3cret"}`:                 "at '/mode'",
		`{"mode":"open","colour":"s3cret"}`: "'colour' not allowed",
	} {
		err := intent.Check(json.RawMessage(spec), nil)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", spec, err)
		case want != "" && (!errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")):
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}

// The schema on the page of controllers can be used.
func TestTheSchemaOfThePageIsRead(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/controllers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "```yaml\nname: firewall\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatal("the page has no schema")
	}
	if types := read(t, "name: firewall\n"+text); len(types) != 2 {
		t.Errorf("the schema has %d types", len(types))
	}
	for name := range refschema.BuiltIn() {
		if name != "controller" && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the page does not list the parent %s", name)
		}
	}
}
