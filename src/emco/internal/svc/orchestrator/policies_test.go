package orchestrator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// chartOf is a chart of the app "web" with one template.
func (p *controlPlane) chartOf(template string) string {
	return p.pack(map[string]string{
		"web/Chart.yaml":            "apiVersion: v2\nname: web\nversion: 0.1.0\n",
		"web/templates/object.yaml": template,
	})
}

// policy creates a policy of the project.
func (p *controlPlane) policy(name, spec string) {
	p.Helper()
	p.want(201, "POST projects/"+p.project+"/policies", fmt.Sprintf(`{"metadata":{"name":%q},"spec":%s}`, name, spec))
}

// admin is a template with an object that reaches beyond a namespace, on its third line.
const admin = "# a comment\n---\n" + `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: User, name: me}]
`

// planOf returns the plan of an action.
func (g testGroup) planOf(action string) (out v2.Plan) {
	g.Helper()
	g.must(json.Unmarshal([]byte(g.want(200, "POST "+g.path()+"/"+action+"?dryRun=true", "")), &out))
	return out
}

func (g testGroup) statusOf() (out v2.Status) {
	g.Helper()
	g.must(json.Unmarshal([]byte(g.want(200, "GET "+g.path()+"/status?status=deployed", "")), &out))
	return out
}

func TestF73WithoutAPolicyBreachesAreFindings(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chartOf(admin))
	g := p.group("v1", "g")
	g.make("edge")
	g.acts("approve")
	const want = "rbac.authorization.k8s.io/v1 ClusterRoleBinding admin: gives permissions on the whole cluster (the built-in policy: permissions)"
	if plan := g.planOf("instantiate"); plan.Apps[0].Failure != nil || !strings.Contains(strings.Join(plan.Apps[0].Findings, "\n"), want) {
		t.Errorf("the plan: %v, %q", plan.Apps[0].Failure, plan.Apps[0].Findings)
	}
	g.acts("instantiate")
	p.work()
	p.settle()
	if st := g.statusOf(); st.DeployedStatus != "Instantiated" || !strings.Contains(strings.Join(st.Apps[0].Findings, "\n"), want) {
		t.Errorf("the status: %s, %q", st.DeployedStatus, st.Apps[0].Findings)
	}
}

// The plan and the status name fields that a kind does not have; the app is delivered as it is.
func TestFieldsThatAKindDoesNotHaveAreFindings(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chartOf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndate: {b: c}\n"))
	g := p.group("v1", "g")
	g.make("edge")
	g.acts("approve")
	g.instantiatesWith("v1 ConfigMap default/a in web/templates/object.yaml:1: ConfigMap has no field date: clusters drop it, or refuse the object")
}

// instantiatesWith instantiates the group. The plan and then the status have a finding about its first app, which is delivered nevertheless.
func (g testGroup) instantiatesWith(finding string) {
	g.Helper()
	if plan := g.planOf("instantiate"); plan.Apps[0].Failure != nil || !slices.Contains(plan.Apps[0].Findings, finding) {
		g.Errorf("the plan: %v, %q", plan.Apps[0].Failure, plan.Apps[0].Findings)
	}
	g.acts("instantiate")
	g.work()
	g.settle()
	if st := g.statusOf(); st.DeployedStatus != "Instantiated" || !slices.Contains(st.Apps[0].Findings, finding) {
		g.Errorf("the status: %s, %q", st.DeployedStatus, st.Apps[0].Findings)
	}
}

func TestF73AStrictPolicyRefusesWithFileAndLine(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge") // revision 1 breaks no rule
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chartOf(admin))
	g.acts("update")
	p.work()
	p.settle() // revision 2 is delivered
	p.policy("walls", `{"mode":"strict","logicalCloud":"stores"}`)
	p.policy("elsewhere", `{"mode":"strict","logicalCloud":"other","allow":["permissions"]}`)
	plan := g.planOf("update")
	f := plan.Apps[0].Failure
	if f == nil || f.Stage != "policy" || f.File != "web/templates/object.yaml:3" || !strings.Contains(f.Reason, "(policy walls: permissions)") {
		t.Fatalf("the plan has the failure %+v", f)
	}
	if strings.Contains(f.Reason, "elsewhere") {
		t.Errorf("the policy of another cloud counts: %s", f.Reason)
	}
	g.acts("update")
	p.work()
	if st := g.statusOf(); st.Apps[0].Failure == nil || st.Apps[0].Failure.Stage != "policy" {
		t.Errorf("the status has the failure %+v", st.Apps[0].Failure)
	}
	// Content that is refused now does not come back by a rollback; harmless content does.
	if a := g.act("rollback?dryRun=true", `{"metadata":{"description":"back"},"spec":{"revision":"2"}}`); a.status != 400 && a.status != 422 || !strings.Contains(a.body, "revision 2 is not restored: app web: ") {
		t.Errorf("the plan of a rollback: %d %s", a.status, a.body)
	}
	if a := g.act("rollback?dryRun=true", `{"metadata":{"description":"back"},"spec":{"revision":"1"}}`); a.status != 200 {
		t.Errorf("the plan of a harmless rollback: %d %s", a.status, a.body)
	}
	// A policy that allows it makes the plan another one.
	p.want(201, "PUT projects/shop/policies/walls", `{"metadata":{"name":"walls"},"spec":{"mode":"strict","allow":["permissions","cluster-scoped"]}}`)
	if plan := g.planOf("update"); plan.Apps[0].Failure != nil {
		t.Errorf("allowed, and refused: %+v", plan.Apps[0].Failure)
	}
}

// An app of a level 1 cloud that leaves the cloud's namespaces is refused before anything is
// delivered, with file and line, without any policy of the project.
func TestALevel1CloudBoundsItsApps(t *testing.T) {
	t.Parallel()
	p, g := newLevel1Group(t)
	g.acts("approve")
	if plan := g.planOf("instantiate"); plan.Apps[0].Failure != nil {
		t.Errorf("an app within the namespace is refused: %+v", plan.Apps[0].Failure)
	}
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chartOf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: bank}\n"))
	plan := g.planOf("instantiate")
	f := plan.Apps[0].Failure
	if f == nil || f.Stage != "policy" || f.File != "web/templates/object.yaml:1" || !strings.Contains(f.Reason, `is in namespace "bank", which logical cloud team does not allow`) {
		t.Errorf("the plan has the failure %+v", f)
	}
}

// A policy decides about values in rendered Secrets, in either mode. Plans show no value.
func TestF71APolicyDecidesAboutRenderedSecrets(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	const planted = "planted-password"
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chartOf("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: "+planted+"}\n"))
	g := p.group("v1", "g")
	g.make("edge")
	g.acts("approve")
	failure := func() *v2.AppFailure {
		t.Helper()
		if text := g.want(200, "POST "+g.path()+"/instantiate?dryRun=true", ""); strings.Contains(text, planted) {
			t.Errorf("the plan shows the value: %s", text)
		}
		return g.planOf("instantiate").Apps[0].Failure
	}
	if f := failure(); f != nil {
		t.Errorf("without a policy: %+v", f)
	}
	for _, mode := range []string{"report", "strict"} {
		p.policy(mode, `{"mode":"`+mode+`","secrets":"refuse"}`)
		if f := failure(); f == nil || f.Stage != "policy" || f.File != "web/templates/object.yaml:1" || !strings.Contains(f.Reason, "(policy "+mode+": secrets)") || strings.Contains(f.Reason, planted) {
			t.Errorf("mode %s: %+v", mode, f)
		}
		p.want(204, "DELETE projects/shop/policies/"+mode, "")
	}
	p.policy("walls", `{"mode":"report","secrets":"allow"}`)
	if f := failure(); f != nil {
		t.Errorf("allowed: %+v", f)
	}
	g.acts("instantiate")
	p.work()
	p.settle()
	if text := p.dataOf(g, "edge+a"); !strings.Contains(text, "password") {
		t.Errorf("the cluster holds %q", text)
	}
	p.policy("walls2", `{"mode":"report","secrets":"refuse"}`)
	if a := g.act("rollback?dryRun=true", `{"metadata":{"description":"back"},"spec":{"revision":"1"}}`); a.status < 400 || !strings.Contains(a.body, "(policy walls2: secrets)") {
		t.Errorf("the plan of a rollback to values in a Secret: %d %s", a.status, a.body)
	}
}

// A project's own rule is evaluated on what an app renders: it warns, or refuses with rule, file, line and object.
func TestRulesOfAProject(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	const policy = `{"metadata":{"name":"own"},"spec":{"allow":["kinds"],"variables":[{"name":"data","expression":"object.data"}],
		"validations":[{"name":"no-debug","kinds":["ConfigMap"],"expression":"!('debug' in variables.data)","message":"turns debugging on","mode":%q}]}}`
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chartOf("# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {debug: 'true'}\n"))
	g := p.group("v1", "g")
	g.make("edge")
	g.acts("approve")
	p.want(201, "POST projects/shop/policies", fmt.Sprintf(policy, "warn"))
	g.instantiatesWith("v1 ConfigMap default/a: turns debugging on (policy own: no-debug)")

	p.want(201, "PUT projects/shop/policies/own", fmt.Sprintf(policy, "refuse"))
	f := g.planOf("update").Apps[0].Failure
	if f == nil || f.Stage != "policy" || f.File != "web/templates/object.yaml:2" || !strings.Contains(f.Reason, "v1 ConfigMap default/a turns debugging on (policy own: no-debug)") {
		t.Fatalf("the plan has the failure %+v", f)
	}
	if a := g.act("rollback?dryRun=true", `{"metadata":{"description":"back"},"spec":{"revision":"1"}}`); a.status < 400 || !strings.Contains(a.body, "turns debugging on") {
		t.Errorf("the plan of a rollback: %d %s", a.status, a.body)
	}
	before := p.dataOf(g, "edge+a")
	g.acts("update")
	p.work()
	p.settle()
	if st := g.statusOf(); st.Apps[0].Failure == nil || st.Apps[0].Failure.Stage != "policy" || p.dataOf(g, "edge+a") != before {
		t.Errorf("the status has the failure %+v", st.Apps[0].Failure)
	}
}

// What cannot be evaluated is refused when it is written.
func TestRulesThatCannotBeEvaluatedAreNotStored(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.want(201, "POST projects", name(p.project))
	rule := func(more string) string { return `{"name":"a","expression":"true","message":"m"` + more + `}` }
	for body, want := range map[string]string{
		`"validations":[{"name":"a","expression":"object.","message":"m"}]`:             "spec.validations[0].expression: the expression is no CEL",
		`"validations":[{"name":"a","expression":"1 + 1","message":"m"}]`:               "not true or false",
		`"validations":[{"name":"host","expression":"true","message":"m"}]`:             "the name of another rule",
		`"validations":[` + rule("") + `,` + rule("") + `]`:                             "spec.validations[1].name",
		`"validations":[{"name":"a","expression":"true"}]`:                              "spec.validations[0].message: missing",
		`"validations":[{"name":"a","expression":"true","message":" "}]`:                "spec.validations[0].message: missing",
		`"validations":[{"name":"a","message":"m"}]`:                                    "spec.validations[0].expression: missing",
		`"validations":[` + rule(`,"mode":"strict"`) + `]`:                              `neither "warn" nor "refuse"`,
		`"validations":[` + rule(`,"kinds":["["]`) + `]`:                                "spec.validations[0].kinds",
		`"validations":[` + rule(``) + strings.Repeat(`,`+rule(``), 50) + `]`:           "has 51 items; at most 50",
		`"variables":[{"name":"1st","expression":"true"}]`:                              "no name of a variable",
		`"variables":[{"name":"` + strings.Repeat("v", 64) + `","expression":"true"}]`:  "no name of a variable",
		`"variables":[{"name":"a","expression":"1"},{"name":"a","expression":"1"}]`:     "spec.variables[1].name",
		`"variables":[{"name":"a","expression":"` + strings.Repeat("1+", 3000) + `1"}]`: "at most 4096",
	} {
		if got := p.want(400, "POST projects/"+p.project+"/policies", `{"metadata":{"name":"own"},"spec":{`+body+`}}`); !strings.Contains(got, want) {
			t.Errorf("%.80s: %s, want %s", body, got, want)
		}
	}
	p.want(201, "POST projects/"+p.project+"/policies", `{"metadata":{"name":"own"},"spec":{"variables":[{"name":"a","expression":"1"}],"validations":[`+
		`{"name":"variables.a","expression":"variables.a == 1","message":"m"}]}}`) // the names of rules and variables do not meet
}

// A chart that brings a definition has its objects compared with it.
func TestFieldsThatTheAppsOwnDefinitionDoesNotHaveAreFindings(t *testing.T) {
	t.Parallel()
	p, g := newMadeGroup(t)
	p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", name("web"), p.chartOf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {colour: {type: string}}}}}}}]
---
apiVersion: example.org/v1
kind: Widget
metadata: {name: a}
spec: {color: red}
`))
	g.acts("approve")
	want := "example.org/v1 Widget default/a in web/templates/object.yaml:10: Widget has no field spec.color: clusters drop it, or refuse the object"
	if plan := g.planOf("instantiate"); plan.Apps[0].Failure != nil || !slices.Contains(plan.Apps[0].Findings, want) {
		t.Errorf("the plan: %v, %q", plan.Apps[0].Failure, plan.Apps[0].Findings)
	}
}
