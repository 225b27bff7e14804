package app_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// refusedRequest is a request that must be refused.
type refusedRequest struct {
	name         string
	method, path string
	status       int
	texts        []string // that the answer must contain
}

func (s *testStage) refuses(all []refusedRequest) {
	s.Helper()
	for _, r := range all {
		a := s.do(r.method, r.path, "")
		if a.Status != r.status {
			s.Errorf("%s: %s %s: got %d %s, want %d", r.name, r.method, r.path, a.Status, a.Body, r.status)
		}
		for _, text := range r.texts {
			if !strings.Contains(a.Body, text) {
				s.Errorf("%s: %s %s: got %q, want %q in it", r.name, r.method, r.path, a.Body, text)
			}
		}
	}
}

func TestActionsAreRefusedWithTheStatesThatWouldDo(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	raw := testGroup{s, till + "/deployment-intent-groups/raw"}
	s.expect(201, "POST", till+"/deployment-intent-groups",
		`{"metadata":{"name":"raw"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	missing := till + "/deployment-intent-groups/none"
	const notFound = "DeploymentIntentGroup not found"
	s.refuses([]refusedRequest{
		{"no such group", "POST", missing + "/approve", 404, []string{notFound}},
		{"no such group", "POST", missing + "/instantiate", 404, []string{notFound}},
		{"no such group", "POST", missing + "/terminate", 404, []string{notFound}},
		{"no such group", "GET", missing + "/status", 404, []string{notFound}},
		{"no such action", "POST", g.path + "/explode", 404, nil},
		{"an action is posted", "GET", g.path + "/instantiate", 405, nil},
		{"not approved", "POST", raw.path + "/instantiate", 409, []string{"Created", "Approved, Terminated, TerminateStopped"}},
		{"not instantiated", "POST", raw.path + "/terminate", 409, []string{"Created", "Instantiated, InstantiateStopped"}},
		{"only approved", "POST", g.path + "/terminate", 409, []string{"Approved", "Instantiated"}},
	})
	raw.act("approve")
	raw.act("approve") // once more is no harm, and no second approval
	wantEqual(s, "history", history(raw.status()), []string{"Created - 0", "Approved - 0"})
	s.refuses([]refusedRequest{
		{"no placement", "POST", raw.path + "/instantiate", 400, []string{"genericPlacementIntent"}},
	})

	s.expect(202, "POST", g.path+"/instantiate", `{"metadata":{"name":""}}`) // upstream's CLI sends this
	g.becomes("Instantiated")
	s.refuses([]refusedRequest{
		{"instantiated already", "POST", g.path + "/instantiate", 409, []string{"Instantiated"}},
		{"instantiated", "POST", g.path + "/approve", 409, []string{"Instantiated"}},
		{"instantiated", "DELETE", g.path, 409, nil},
	})
	a := s.do("PUT", g.path, `{"metadata":{"name":"autumn"},"spec":{"compositeProfile":"small","version":"r2","logicalCloud":"stores"}}`)
	if a.Status != http.StatusConflict || !strings.Contains(a.Body, "not in Created status") {
		t.Errorf("PUT while instantiated: got %d %s", a.Status, a.Body)
	}
	s.expect(202, "POST", g.path+"/terminate", "this is no JSON")
	g.becomes("Terminated")
	s.refuses([]refusedRequest{{"terminated already", "POST", g.path + "/terminate", 409, []string{"Terminated"}}})
}

func TestLogicalCloudsBoundDeployments(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a")
	s.cluster("outside", "repo")
	s.onboard("web")
	s.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"empty"},"spec":{"level":"0"}}`)
	const empty = "projects/shop/logical-clouds/empty"
	s.refuses([]refusedRequest{
		{"no references", "POST", empty + "/instantiate", 400, []string{"No Cluster References associated"}},
		{"no such cloud", "POST", "projects/shop/logical-clouds/none/instantiate", 404, []string{"LogicalCloud not found"}},
		{"no such cloud", "POST", "projects/shop/logical-clouds/none/terminate", 404, []string{"LogicalCloud not found"}},
		{"instantiated already", "POST", cloud + "/instantiate", 409, []string{"Instantiated"}},
		{"instantiated", "DELETE", cloud, 409, nil},
	})
	s.expect(202, "POST", empty+"/terminate", "") // nothing to do, as in upstream EMCO

	must, either := s.group("must", appPlaces{"web": {"a", "outside"}}), s.group("either", appPlaces{"web": {"a"}})
	s.refuses([]refusedRequest{
		{
			"a mandatory cluster is outside", "POST", must.path + "/instantiate", 400,
			[]string{"app web", "The specified Logical Cloud doesn't provide the mandatory clusters", "edge+outside"},
		},
	})
	intent := func(anyOf string) {
		s.expect(200, "PUT", either.path+"/generic-placement-intents/places/app-intents/web",
			`{"metadata":{"name":"web"},"spec":{"app":"web","intent":{"allOf":[{"clusterProvider":"edge","cluster":"a"}],"anyOf":[`+anyOf+`]}}}`)
	}
	intent(`{"clusterProvider":"edge","cluster":"outside"}`)
	s.refuses([]refusedRequest{
		{"no alternative is inside", "POST", either.path + "/instantiate", 400, []string{"app web", "edge+outside", "is not in logical cloud stores"}},
	})
	intent("")

	s.expect(202, "POST", cloud+"/terminate", "") // two groups name it, none is live
	s.refuses([]refusedRequest{{"cloud not instantiated", "POST", either.path + "/instantiate", 409, []string{"logical cloud", "not instantiated", cloud}}})
	s.expect(202, "POST", cloud+"/instantiate", "")
	either.act("instantiate")
	s.refuses([]refusedRequest{
		{"in use", "POST", cloud + "/terminate", 409, []string{"in use by " + either.path}},
		{"in use", "DELETE", cloud + "/cluster-references/a", 409, nil},
	})
	either.becomes("Instantiated")
	either.act("terminate")
	either.becomes("Terminated")
	s.expect(202, "POST", cloud+"/terminate", "")
	wantEqual(s, "history of the cloud", s.cloudHistory(), []string{
		"Created", "Instantiated", "Terminated", "Instantiated", "Terminated",
	})
}

func (s *testStage) cloudHistory() (out []string) {
	s.Helper()
	var st v2.Status
	s.must("read the cloud's status", json.Unmarshal([]byte(s.expect(200, "GET", cloud+"/status", "")), &st))
	for _, a := range st.States.Actions {
		out = append(out, a.State)
	}
	return out
}

func TestStatusQueries(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("cache", "web")
	g := s.group("autumn", appPlaces{"web": nil, "cache": {"a"}})
	if st := g.query(""); st.Apps != nil || st.Status != "" || st.States.StatusCtxID != "" {
		t.Errorf("a group that was never instantiated has more than its history: %+v", st)
	}
	g.act("instantiate")
	g.becomes("Instantiated")
	status := g.path + "/status"
	s.refuses([]refusedRequest{
		{"type", "GET", status + "?type=nope", 400, []string{"Invalid query type"}},
		{"status", "GET", status + "?status=nope", 400, []string{"Invalid query status"}},
		{"output", "GET", status + "?output=nope", 400, []string{"Invalid query output"}},
		{"app", "GET", status + "?app=no%20name", 400, []string{"Invalid app query"}},
		{"app that is not there", "GET", status + "?app=none", 400, []string{"Invalid app query", "none"}},
		{"resource", "GET", status + "?resource=-", 400, []string{"Invalid resources query"}},
		{"instance that is empty", "GET", status + "?instance=", 400, []string{"Invalid query instance"}},
		{"instance that is not there", "GET", status + "?instance=5", 400, []string{"Invalid query instance"}},
		{"cluster whose + was read as a blank", "GET", status + "?cluster=edge+a", 400, []string{"Invalid cluster query"}},
	})

	for _, tt := range []struct {
		query string
		want  []string // app cluster phase
	}{
		{"?status=deployed", []string{"cache a Applied", "web a Applied", "web b Applied"}},
		{"?status=deployed&app=web", []string{"web a Applied", "web b Applied"}},
		{"?status=deployed&app=web&app=cache&cluster=edge%2Ba", []string{"cache a Applied", "web a Applied"}},
		{"?status=deployed&resource=r1-cache", []string{"cache a Applied"}},
		{"?status=deployed&resource=none", nil},
		{"?status=deployed&output=summary", nil},
		{"", []string{"cache a Applied", "web a Applied", "web b Applied"}},
	} {
		wantEqual(s, tt.query, pairs(g.query(tt.query)), tt.want)
	}

	for _, tt := range []struct {
		query, whole, counts, resource, none string // names of members; none must not be there
	}{
		{"", `"status":"Instantiated"`, `"rsyncStatus":{"Applied":3}`, `"rsyncStatus":"Applied"`, "deployedStatus"},
		{"?type=rsync", `"status":"Instantiated"`, `"rsyncStatus":{"Applied":3}`, `"rsyncStatus":"Applied"`, "deployedStatus"},
		{"?status=deployed", `"deployedStatus":"Instantiated"`, `"deployedCounts":{"Applied":3}`, `"deployedStatus":"Applied"`, "rsyncStatus"},
		{"?status=deployed&type=cluster", `"deployedStatus":"Instantiated"`, `"deployedCounts":{"Applied":3}`, `"deployedStatus":"Applied"`, "clusterStatus"},
		{"?status=ready", `"readyStatus":"Unknown"`, `"readyCounts":{"Unknown":3}`, `"readyStatus":"Unknown"`, `"Ready"`},
		{"?type=cluster", `"readyStatus":"Unknown"`, `"clusterStatus":{"Unknown":3}`, `"clusterStatus":"Unknown"`, `"Ready"`},
		{"?status=deployed&output=summary", `"deployedStatus":"Instantiated"`, `"deployedCounts":{"Applied":3}`, "", `"apps"`},
	} {
		body := s.expect(200, "GET", status+tt.query, "")
		for _, want := range []string{tt.whole, tt.counts, tt.resource} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: the answer lacks %s:\n%s", tt.query, want, body)
			}
		}
		if strings.Contains(body, tt.none) {
			t.Errorf("%s: the answer holds %s:\n%s", tt.query, tt.none, body)
		}
	}
}

// The lists of names, and complete objects, have upstream's form too.
func TestStatusLists(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("cache", "web")
	g := s.group("autumn", appPlaces{"web": nil, "cache": {"a"}})
	g.act("instantiate")
	g.becomes("Instantiated")
	status := g.path + "/status"
	id := g.query("").States.StatusCtxID
	for query, want := range map[string]string{
		"?apps":                          `"apps":["cache","web"]}`,
		"?apps&clusters&resources":       `"apps":["cache","web"]}`,
		"?clusters&app=web":              `"clustersByApp":[{"app":"web","clusters":[{"clusterProvider":"edge","cluster":"a"},{"clusterProvider":"edge","cluster":"b"}]}]}`,
		"?resources&app=cache":           `"resourcesByApp":[{"app":"cache","clusterProvider":"edge","cluster":"a","resources":[{"name":"r1-cache","GVK":{`,
		"?status=deployed&output=detail": `"detail":{"apiVersion":`,
		"?instance=" + id:                `"status":"Instantiated"`,
	} {
		if body := s.expect(200, "GET", status+query, ""); !strings.Contains(body, want) {
			t.Errorf("%s: the answer lacks %s:\n%s", query, want, body)
		}
	}
	if body := s.expect(200, "GET", status+"?status=deployed", ""); strings.Contains(body, `"detail"`) {
		t.Errorf("details were not asked for:\n%s", body)
	}
}

// The metric shows operators that each class is rendered once.
func TestClassesAreRenderedOnceHoweverManyClusters(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	clusters := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	s.fleet(clusters...)
	s.onboard("cache", "web")
	g := s.group("autumn", appPlaces{"web": nil, "cache": nil})
	before := s.metric("emco_renders_total")
	g.act("instantiate")
	st := g.becomes("Instantiated")
	if n := len(pairs(st)); n != 2*len(clusters) {
		t.Errorf("%d pairs, want %d", n, 2*len(clusters))
	}
	if before != "0" || s.metric("emco_renders_total") != "2" {
		t.Errorf("renders: %s before, %s after, want 0 and one for each app", before, s.metric("emco_renders_total"))
	}
	if got := s.metric("emco_git_commits_total"); got != "1" {
		t.Errorf("commits: %s, want one for all clusters", got)
	}
}

func (s *testStage) metric(name string) string {
	s.Helper()
	lines := strings.Split(s.do("GET", "/metrics", "").Body, "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, name+" ") })
	if i < 0 {
		s.Fatalf("there is no metric %s", name)
	}
	return strings.TrimPrefix(lines[i], name+" ")
}
