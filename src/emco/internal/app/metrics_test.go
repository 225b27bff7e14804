package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
)

// deployed are the dashboards and alert rules, relative to this package.
var deployed = []string{"../../../../deployments/grafana/emco.json", "../../../../deployments/prometheus/alerts.yaml"}

// A deployment on a cluster appears in gauges and histograms; routes are templates.
func TestF55Metrics(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.running("a", "b")
	s.do("GET", "projects/none", "")
	s.do("GET", "no-such-path", "")
	for series, want := range map[string]string{
		`emco_deployments{state="Instantiated"}`:          "1",
		`emco_deployments{state="Approved"}`:              "0",
		`emco_pairs{state="unknown"}`:                     "2",
		`emco_pairs{state="failed"}`:                      "0",
		`emco_clusters_silent`:                            "0",
		`emco_render_duration_seconds_count{result="ok"}`: "1",
	} {
		s.eventually(series, func() string {
			if got := s.metric(series); got != want {
				return "it is " + got + ", want " + want
			}
			return ""
		})
	}
	for _, series := range []string{
		`emco_git_push_duration_seconds_count{result="committed"}`, `emco_git_queue_duration_seconds_count`,
		`emco_http_request_duration_seconds_count{method="GET",route="/v2/projects/{project}",status="404"}`,
		`emco_http_request_duration_seconds_count{method="GET",route="none",status="404"}`,
	} {
		if s.metric(series) == "0" {
			t.Errorf("%s is 0", series)
		}
	}
	text := s.do("GET", "/metrics", "").Body
	if !strings.Contains(text, "emco_build_info{commit=") {
		t.Error("there is no emco_build_info")
	}
	g.act("terminate")
	s.eventually("gone from the gauges", func() string {
		return unless(s.metric(`emco_pairs{state="unknown"}`), "0") + unless(s.metric(`emco_deployments{state="Terminated"}`), "1")
	})
}

// The counts of documents follow the documents.
func TestTheInventoryIsCounted(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("web", "cache")
	s.group("autumn", appPlaces{"web": {"a"}})
	want := func(what string, counts map[string]string) {
		t.Helper()
		for kind, n := range counts {
			s.eventually(what+": "+kind, func() string {
				if !strings.Contains(s.do("GET", "/metrics", "").Body, "\nemco_"+kind+" "+n+"\n") {
					return "it is not " + n
				}
				return ""
			})
		}
	}
	want("documents", map[string]string{
		"project": "1", "logical_cloud": "1", "composite_app": "1", "app": "2", "deployment_intent_group": "1",
		"cluster_provider": "1", "cluster": "2", "controller": "0", "clm_controller": "0", "dtc_controller": "0",
	})
	s.expect(204, "DELETE", "projects/shop/logical-clouds/stores/cluster-references/b", "")
	s.expect(204, "DELETE", provider+"/clusters/b/labels/all", "")
	s.expect(204, "DELETE", provider+"/clusters/b", "")
	s.expect(201, "POST", "projects", named("bank"))
	want("after changes", map[string]string{"cluster": "1", "project": "2"})
}

// Each metric that a dashboard or an alert names exists, and the page lists all.
func TestF55DashboardsAndAlertsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.do("GET", "projects", "")
	text := s.do("GET", "/metrics", "").Body
	page, err := os.ReadFile("../../../../docs/operate/metrics.md")
	s.must("read the page", err)
	for _, found := range regexp.MustCompile(`# TYPE (emco_[a-z_]+)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(string(page), "`"+found[1]+"`") {
			t.Errorf("docs/operate/metrics.md lacks %s", found[1])
		}
	}
	name := regexp.MustCompile(`\b(?:emco|go|process)_[a-z_]+`)
	for _, path := range deployed {
		file, err := os.ReadFile(filepath.FromSlash(path))
		s.must("read "+path, err)
		names := name.FindAllString(string(file), -1)
		slices.Sort(names)
		if names = slices.Compact(names); len(names) < 5 {
			t.Errorf("%s names %d metrics only", path, len(names))
		}
		for _, n := range names {
			if !strings.Contains(text, "\n"+n+" ") && !strings.Contains(text, "\n"+n+"{") {
				t.Errorf("%s names %s, which does not exist", path, n)
			}
		}
	}
}

// A path that the server does not have gets a text that says what to do, and one for another method the methods that it has.
func TestUnknownPathsSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, path := range []string{"/", "/projects", "/v2/nowhere", "nowhere"} {
		if a := s.do("POST", path, "{}"); a.Status != 404 || !strings.Contains(a.Body, "GET /openapi.json lists the API, which is below /v2/") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	for path, want := range map[string]string{"/metrics": "GET, HEAD", "/openapi.json": "GET, HEAD", "projects": "GET, POST"} {
		res, err := s.api.Do(t.Context(), client.Request{Method: "DELETE", Path: path})
		s.must("DELETE "+path, err)
		if allow := res.Header.Get("Allow"); res.Status != 405 || allow != want {
			t.Errorf("%s: %d, Allow %q, want %q", path, res.Status, allow, want)
		}
	}
}

// Callers invent names, paths and methods; none becomes a label. The number of series is the same whatever
// they are called.
func TestH68CallersMakeNoSeries(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	names := func(round string) {
		s.Helper()
		for i := range 5 {
			name := fmt.Sprintf("canary-%s-%d", round, i)
			s.do("POST", "projects", `{"metadata":{"name":"`+name+`"}}`)
			s.do("GET", "projects/"+name, "")
			s.do("GET", "projects/"+name+"/"+name, "")
			s.do("GET", name, "")
			s.do("CANARY"+strings.ToUpper(round)+fmt.Sprint(i), "projects/"+name, "")
			s.do("DELETE", "projects/"+name, "")
		}
	}
	series := func() (out []string) {
		s.Helper()
		for line := range strings.Lines(s.do("GET", "/metrics", "").Body) {
			if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "emco_http_request_duration_seconds") {
				out = append(out, name)
			}
		}
		return out
	}
	names("first")
	before := series()
	names("second")
	if after := series(); len(before) == 0 || !slices.Equal(before, after) {
		t.Errorf("there were %d series, and now there are %d", len(before), len(after))
	}
	if text := s.do("GET", "/metrics", "").Body; strings.Contains(strings.ToLower(text), "canary") {
		t.Error("a name of a caller is in the metrics")
	}
}
