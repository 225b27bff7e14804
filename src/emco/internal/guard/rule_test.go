package guard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/guard"
)

// own returns a policy with rules of the project's own.
func own(mode string, validations ...v2.Validation) guard.Policy {
	return guard.FromSpec("own", v2.PolicySpec{
		Mode: mode, Kinds: []string{"*"}, Allow: v2.PolicyRules(), Validations: validations,
		Variables: []v2.PolicyVariable{
			{Name: "containers", Expression: "object.spec.template.spec.containers"},
			{Name: "images", Expression: "variables.containers.map(c, c.image)"},
		},
	})
}

func TestRulesOfProjects(t *testing.T) {
	t.Parallel()
	const other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {team: shop}}\n"
	web := strings.Replace(pod("", "image: registry.example.org/web"), "spec: {", "spec: {replicas: 3, ", 1)
	for expression, want := range map[string]string{
		"variables.images.all(i, i.startsWith('registry.example.org/'))": "",
		"variables.containers.all(c, has(c.resources))":                  "apps/v1 Deployment shop/web: is refused (policy own: rule)",
		"object.spec.replicas + 1 == 4 && object.spec.replicas > 2.5":    "",
		"object.metadata.namespace == 'shop'":                            "",
		"has(object.spec.missing)":                                       "apps/v1 Deployment shop/web: is refused (policy own: rule)",
		"object.spec.missing == 1":                                       "apps/v1 Deployment shop/web: may break the rule, which cannot be evaluated for it (evaluate the expression: no such key: missing; has() asks whether an object has a member): is refused (policy own: rule)",
	} {
		p := own("report", v2.Validation{Name: "rule", Kinds: []string{"Deployment.apps"}, Expression: expression, Message: "is  refused"})
		breaches, err := guard.Check(objectsOf(t, web+"---\n"+other), p)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(guard.Findings(breaches), "\n"); got != want {
			t.Errorf("%s: got %q, want %q", expression, got, want)
		}
	}
}

func TestModesOfRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy, mode string
		refused      bool
	}{{"report", "", false}, {"report", "warn", false}, {"report", "refuse", true}, {"strict", "", true}, {"strict", "warn", false}, {"strict", "refuse", true}} {
		p := own(tt.policy, v2.Validation{Name: "never", Expression: "false", Message: "is wrong", Mode: tt.mode})
		breaches, err := guard.Check(objectsOf(t, "# comment\n"+pod("", "image: a")), p)
		if err != nil {
			t.Fatal(err)
		}
		file, line, text, refused := guard.Refusal(breaches)
		if refused != tt.refused || refused == (len(guard.Findings(breaches)) > 0) || p.Refuses() != (tt.refused || tt.policy == "strict") {
			t.Errorf("%s in %s: refused %v, findings %q", tt.mode, tt.policy, refused, guard.Findings(breaches))
		}
		if want := "apps/v1 Deployment shop/web is wrong (policy own: never) (the line counts in the template's output)"; refused && (file != "web/templates/x.yaml" || line != 2 || text != want) {
			t.Errorf("the refusal is %s:%d: %s", file, line, text)
		}
	}
}

// A reason quotes what the object holds, so a Secret has none.
func TestReasonsQuoteNoSecrets(t *testing.T) {
	t.Parallel()
	p := own("report", v2.Validation{Name: "never", Expression: "object.stringData[object.stringData.a] == 1", Message: "is wrong"})
	for kind, shows := range map[string]bool{"Secret": false, "Widget": true} {
		breaches, err := guard.Check(objectsOf(t, "apiVersion: v1\nkind: "+kind+"\nmetadata: {name: a}\nstringData: {a: planted}\n"), p)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(guard.Findings(breaches), "\n"); strings.Contains(got, "planted") != shows || !strings.Contains(got, "is wrong") {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

// All rules together have a limit for one app; objects after it are not passed over in silence.
func TestCostsOfRulesAreLimited(t *testing.T) {
	t.Parallel()
	var rules []v2.Validation
	for i := range 50 {
		rules = append(rules, v2.Validation{Name: fmt.Sprintf("r%d", i), Expression: "object.data.list.all(a, object.data.list.all(b, a == b))", Message: "differs", Mode: v2.ValidationRefuse})
	}
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, "---\napiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w%d}\ndata: {list: [%s]}\n", i, strings.Repeat("1,", 100))
	}
	breaches, err := guard.Check(objectsOf(t, text.String()), own("report", rules...))
	if err != nil {
		t.Fatal(err)
	}
	unseen := slices.IndexFunc(breaches, func(b guard.Breach) bool { return strings.Contains(b.Text, "cost more than 2000000 units") })
	if unseen != 0 || len(breaches) < 1000 {
		t.Fatalf("%d breaches, the first without an evaluation is %d", len(breaches), unseen)
	}
	if _, _, text, refused := guard.Refusal(breaches); !refused || !strings.Contains(text, "name the kinds that they concern") {
		t.Errorf("refused %v: %s", refused, text)
	}
}

func TestExpressionsThatCannotBeCompiled(t *testing.T) {
	t.Parallel()
	valid := v2.Validation{Name: "a", Expression: "true", Message: "m"}
	for want, spec := range map[string]v2.PolicySpec{
		"spec.validations[1].expression: the expression is no CEL": {Validations: []v2.Validation{valid, {Name: "b", Expression: "object.", Message: "m"}}},
		"not true or false":                            {Validations: []v2.Validation{{Name: "b", Expression: "1", Message: "m"}}},
		"undeclared reference to 'request'":            {Validations: []v2.Validation{{Name: "b", Expression: "request.userInfo == 1", Message: "m"}}},
		"undeclared reference to 'variables'":          {Validations: []v2.Validation{{Name: "b", Expression: "variables.later == 1", Message: "m"}}},
		"spec.variables[0].expression: the expression": {Variables: []v2.PolicyVariable{{Name: "a", Expression: "variables.b"}, {Name: "b", Expression: "1"}}},
	} {
		if err := guard.CheckExpressions(spec); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := guard.CheckExpressions(v2.PolicySpec{Validations: []v2.Validation{valid}}); err != nil {
		t.Error(err)
	}
}
