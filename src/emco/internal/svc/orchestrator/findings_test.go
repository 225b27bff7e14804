package orchestrator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A filter of an app that does not exist is refused in each phase of a deployment, not only
// once there is a revision.
func TestF20AFilterOfAnUnknownAppIsAlwaysRefused(t *testing.T) {
	t.Parallel()
	p, g := newMadeGroup(t)
	check := func(phase string) {
		t.Helper()
		if a := p.send(apiRequest{do: "GET " + g.path() + "/status?status=deployed&app=none"}); a.status != 400 {
			t.Errorf("%s: an unknown app is answered %d %s", phase, a.status, a.body)
		}
		if a := p.send(apiRequest{do: "GET " + g.path() + "/status?status=deployed&app=web"}); a.status != 200 {
			t.Errorf("%s: an app of the documents is answered %d %s", phase, a.status, a.body)
		}
	}
	check("created")
	g.acts("approve", "instantiate")
	check("instantiating")
	p.work()
	p.settle()
	check("instantiated")
	p.upload("POST projects/shop/composite-apps/till/v1/apps", name("late"), p.pack(map[string]string{"late/Chart.yaml": "apiVersion: v2\nname: late\nversion: 0.1.0\n"}))
	if a := p.send(apiRequest{do: "GET " + g.path() + "/status?app=late"}); a.status != 200 {
		t.Errorf("an app that is not in the revision yet: %d %s", a.status, a.body)
	}
	g.acts("terminate")
	p.settle()
	check("terminated")
}

func TestF20APlacementOfAnUnknownAppIsRefused(t *testing.T) {
	t.Parallel()
	p, g := newMadeGroup(t)
	if a := p.send(apiRequest{do: "GET " + g.path() + "/placement?app=none"}); a.status != 400 || !strings.Contains(a.body, `has no app "none"`) {
		t.Errorf("an unknown app is answered %d %s", a.status, a.body)
	}
	if a := p.send(apiRequest{do: "GET " + g.path() + "/placement?app=web"}); a.status != 200 || !strings.Contains(a.body, `"app":"web"`) {
		t.Errorf("an app of the documents is answered %d %s", a.status, a.body)
	}
}

func TestF20AStatusThatHasNotChangedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	g := p.runs("v1", "g", "edge")
	ask := func(path, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/"+path, nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		p.api.ServeHTTP(w, r)
		return w
	}
	status := g.path() + "/status"
	tag := ask(status, `"x"`).Header().Get("ETag")
	if w := ask(status, tag); tag == "" || w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("unchanged, with %q: %d %s", tag, w.Code, w.Body)
	}
	g.acts("terminate")
	if w := ask(status, tag); w.Code != http.StatusOK {
		t.Errorf("changed: %d", w.Code)
	}
}

func TestF26UnknownParametersOfGroupsAreRefused(t *testing.T) {
	t.Parallel()
	p, g := newMadeGroup(t)
	for do, near := range map[string]string{
		"GET " + g.path() + "/events?folow=true":        "did you mean follow?",
		"GET " + g.path() + "/status?stats=ready":       "did you mean status?",
		"GET " + g.path() + "/status?Status=ready":      "did you mean status?",
		"GET " + g.path() + "/revisions?limt=5":         "did you mean limit?",
		"POST " + g.path() + "/instantiate?dryrun=true": "did you mean dryRun?",
		"POST " + g.path() + "/approve?reson=x":         "did you mean reason?",
		"GET " + p.clouds() + "/stores/status?statuss=": "did you mean status?",
		"POST " + p.clouds() + "/stores/stop?forze=1":   "did you mean force?",
		"GET controllers?controller=x":                  `no parameter "controller"`,
	} {
		if a := p.send(apiRequest{do: do}); a.status != 400 || !strings.Contains(a.body, near) {
			t.Errorf("%s: got %d %s, want %q", do, a.status, a.body, near)
		}
	}
}

func TestF42ApproveNamesControllersThatCannotBeCalled(t *testing.T) {
	t.Parallel()
	p, g := newMadeGroup(t)
	p.want(201, "POST controllers", `{"metadata":{"name":"gac"},"spec":{"host":"gac","port":9033,"type":"action","priority":1}}`)
	p.want(201, "POST "+g.path()+"/intents", `{"metadata":{"name":"k8s"},"spec":{"intent":{"gac":"i"}}}`)
	g.refused("approve", "", 400, `controller "gac" is not known`)
	equal(t, "history", g.history(), "Created 0")
	p.want(204, "DELETE "+g.path()+"/intents/k8s", "")
	g.acts("approve", "instantiate")

	early := p.group("v1", "early") // intents may come after the approval
	all, _, _ := strings.Cut(early.path(), "/early")
	p.want(201, "POST "+all, `{"metadata":{"name":"early"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	early.acts("approve")
	early.intend("edge")
	early.acts("instantiate")
}

func TestF77AProfileInUseCannotBeDeleted(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	const profile = "projects/shop/composite-apps/till/v1/composite-profiles/small/profiles/web"
	g := p.runs("v1", "g", "edge")
	if body := p.want(409, "DELETE "+profile, ""); !strings.Contains(body, "referencing resources first: "+g.path()) {
		t.Errorf("the refusal does not name the deployment: %s", body)
	}
	p.want(409, "DELETE "+profile+"?dryRun=true", "")
	g.acts("update", "terminate")
	p.settle()
	p.want(204, "DELETE "+profile, "")
}

func TestF77ADependencyNeedsItsApp(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.fleet("edge", "a")
	p.onboard("v1")
	const all = "projects/shop/composite-apps/till/v1/apps/web/dependency"
	if body := p.want(409, "POST "+all, `{"metadata":{"name":"d"},"spec":{"app":"none","opStatus":"Ready"}}`); !strings.Contains(body, "apps/none") {
		t.Errorf("the refusal does not name the app: %s", body)
	}
	p.upload("POST projects/shop/composite-apps/till/v1/apps", name("db"), p.pack(map[string]string{"db/Chart.yaml": "apiVersion: v2\nname: db\nversion: 0.1.0\n"}))
	p.want(201, "POST "+all, `{"metadata":{"name":"d"},"spec":{"app":"db","opStatus":"Ready"}}`)
	p.want(409, "PUT "+all+"/d", `{"metadata":{"name":"d"},"spec":{"app":"gone","opStatus":"Ready"}}`)
}

func TestF77ProjectsDifferInMoreThanCase(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	p.want(201, "POST projects", name("shop"))
	if body := p.want(409, "POST projects", name("Shop")); !strings.Contains(body, "letter case") || !strings.Contains(body, "shop") {
		t.Errorf("the refusal does not say why: %s", body)
	}
	p.want(200, "PUT projects/shop", `{"metadata":{"name":"shop","description":"x"}}`)
	p.want(409, "PUT projects/SHOP", name("SHOP"))
}
