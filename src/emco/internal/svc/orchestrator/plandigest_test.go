package orchestrator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// plan asks for an action's plan.
func (g testGroup) plan(action string, body ...string) (out v2.Plan) {
	g.Helper()
	a := g.act(action+"?dryRun=true&output=summary", body...)
	if a.status != 200 {
		g.Fatalf("dry run of %s: got %d %s", action, a.status, a.body)
	}
	g.must(json.Unmarshal([]byte(a.body), &out))
	return out
}

// actBy requests an action that must carry out a plan.
func (g testGroup) actBy(plan, action string, body ...string) apiAnswer {
	g.Helper()
	return g.send(apiRequest{do: "POST " + g.path() + "/" + action, body: strings.Join(body, ""), header: "If-Plan: " + plan})
}

// repack replaces the chart of the app "web".
func (p *controlPlane) repack(version, content string) {
	p.Helper()
	p.upload("PUT projects/"+p.project+"/composite-apps/till/"+version+"/apps/web", name("web"), p.chart(content))
}

func TestF25AnActionCarriesOutItsPlanOrNothing(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	g := p.group("v1", "g")
	g.make("edge")
	g.acts("approve")

	first := g.plan("instantiate")
	p.repack("v1", "other")
	refused := g.actBy(first.Digest, "instantiate")
	var problem struct {
		Type    string          `json:"type"`
		Status  int             `json:"status"`
		Detail  string          `json:"detail"`
		Plan    string          `json:"plan"`
		Summary *v2.PlanSummary `json:"summary"`
	}
	p.must(json.Unmarshal([]byte(refused.body), &problem))
	if refused.status != 412 || problem.Type != "urn:emco:error:plan-changed" || problem.Status != 412 || problem.Plan == first.Digest || problem.Summary == nil || problem.Summary.Add != 2 {
		t.Errorf("the chart has changed since the plan: got %+v", refused)
	}
	equal(t, "history", g.history(), "Created 0, Approved 0")

	next := g.plan("instantiate")
	if next.Digest != problem.Plan || next.Digest != g.plan("instantiate").Digest {
		t.Errorf("equal plans have the digests %s, %s, %s", next.Digest, problem.Plan, g.plan("instantiate").Digest)
	}
	p.want(200, "PUT "+g.path()+"/generic-placement-intents/places", `{"metadata":{"name":"places","description":"does not matter"}}`)
	if a := g.actBy(next.Digest, "instantiate"); a.status != 202 {
		t.Fatalf("the plan is still true: got %+v", a)
	}
	p.work()
	p.settle()
	equal(t, "holds", p.holds(g.doc().UID), "a other, b other")
	if a := g.actBy(next.Digest, "update"); a.status != 412 {
		t.Errorf("the plan of another action: got %+v", a)
	}

	update := g.plan("update")
	p.repack("v1", "third")
	g.acts("update")
	p.work()
	p.repack("v1", "other")
	if a := g.actBy(update.Digest, "update"); a.status != 412 {
		t.Errorf("another revision runs than the plan starts from: got %+v", a)
	}

	back := g.plan("rollback", `{"spec":{"revision":"1"}}`)
	if a := g.actBy(back.Digest, "rollback", `{"spec":{"revision":"2"}}`); a.status != 412 {
		t.Errorf("a rollback to another revision: got %+v", a)
	}
	if a := g.actBy(back.Digest, "rollback", `{"spec":{"revision":"1"}}`); a.status != 202 {
		t.Errorf("the planned rollback: got %+v", a)
	}
}

func TestF25APlanCoversPlacesAndOrder(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a", "b")
	p.onboard("v1")
	g := p.group("v1", "g")
	g.make("edge")
	g.acts("approve")
	intent := g.path() + "/generic-placement-intents/places/app-intents/web"
	for _, tt := range []struct {
		change string
		do     func()
	}{ // in this order: without the label, the intent places the app elsewhere
		{"a label", func() { p.want(204, "DELETE cluster-providers/edge/clusters/b/labels/all", "") }},
		{"an intent", func() {
			p.want(200, "PUT "+intent, `{"metadata":{"name":"web"},"spec":{"app":"web","intent":{"allOf":[{"clusterProvider":"edge","cluster":"b"}]}}}`)
		}},
		{"an order", func() {
			p.upload("PUT projects/shop/composite-apps/till/v1/apps/web", `{"metadata":{"name":"web"},"spec":{"leaveLast":true}}`, p.chart("v1"))
		}},
	} {
		plan := g.plan("instantiate")
		tt.do()
		if a := g.actBy(plan.Digest, "instantiate"); a.status != 412 {
			t.Errorf("after a change of %s: got %+v, want 412", tt.change, a)
		}
	}
}

// The worker reads the documents again, some time after the action was accepted.
func TestF25TheWorkerDoesWhatWasPlannedOrNothing(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	p.repack("v1", "second")
	if a := g.actBy(g.plan("update").Digest, "update"); a.status != 202 {
		t.Fatalf("got %+v", a)
	}
	p.repack("v1", "third")
	p.work()
	p.settle()
	equal(t, "holds", p.holds(g.doc().UID), "a v1")
	if st := g.status(); !strings.Contains(st.Failure, "changed since the plan") {
		t.Errorf("the status does not say why: %q, failure %q", st.DeployedStatus, st.Failure)
	}
	g.acts("update")
	p.work()
	p.settle()
	equal(t, "holds", p.holds(g.doc().UID), "a third")
}

func TestF25HeadersOfPlansAreChecked(t *testing.T) {
	t.Parallel()
	p, g := newMadeGroup(t)
	digest := "sha256:" + strings.Repeat("0", 64)
	for header, text := range map[string]string{
		"":                      "Invalid header If-Plan",
		"sha256:00":             "Invalid header If-Plan",
		strings.ToUpper(digest): "Invalid header If-Plan",
		`"` + digest + `"`:      "Invalid header If-Plan",
	} {
		if a := g.actBy(header, "instantiate"); a.status != 400 || !strings.Contains(a.body, text) {
			t.Errorf("If-Plan %q: got %+v", header, a)
		}
	}
	for _, action := range []string{"approve", "stop", "terminate"} {
		if a := g.actBy(digest, action); a.status != 400 || !strings.Contains(a.body, "has no plan") {
			t.Errorf("%s with If-Plan: got %+v", action, a)
		}
	}
	if a := p.send(apiRequest{do: "POST " + p.clouds() + "/stores/terminate", header: "If-Plan: " + digest}); a.status != 400 {
		t.Errorf("a logical cloud's action with If-Plan: got %+v", a)
	}
	g.acts("approve")
	w := httptest.NewRecorder()
	p.api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/"+g.path()+"/instantiate?dryRun=true", nil))
	if got := w.Header().Get("Plan"); got == "" || got != g.plan("instantiate").Digest {
		t.Errorf("the dry run's header Plan is %q", got)
	}
}

func TestF25AMigrationCarriesOutItsPlanOrNothing(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	p.onboard("v2")
	from := p.runs("v1", "g", "edge")
	to := p.group("v2", "h")
	to.make("edge")
	to.acts("approve")
	const body = `{"spec":{"targetCompositeAppVersion":"v2","targetDeploymentIntentGroup":"h"}}`
	plan := from.plan("migrate", body)
	p.repack("v2", "other")
	if a := from.actBy(plan.Digest, "migrate", body); a.status != 412 {
		t.Errorf("the target's chart has changed: got %+v", a)
	}
	if a := from.actBy(from.plan("migrate", body).Digest, "migrate", body); a.status != 202 {
		t.Fatalf("the planned migration: got %+v", a)
	}
	p.work()
	p.settle()
	equal(t, "holds", p.holds(string(to.head().Deployment())), "a other")
}
