package app_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
)

const (
	provider = "cluster-providers/edge"
	cloud    = "projects/shop/logical-clouds/stores"
	till     = "projects/shop/composite-apps/till/v1"
)

// fleet registers clusters that pull from the stage's repository, and makes a logical
// cloud of them, which is instantiated.
func (s *testStage) fleet(clusters ...string) {
	s.Helper()
	s.expect(201, "POST", "cluster-providers", named("edge"))
	s.expect(201, "POST", provider+"/cluster-sync-objects", s.syncObject("repo", s.git.URL("fleet"), s.token))
	for _, c := range clusters {
		s.cluster(c, "repo")
	}
	s.expect(201, "POST", "projects", named("shop"))
	s.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"level":"0"}}`)
	for _, c := range clusters {
		s.member(c)
	}
	s.expect(202, "POST", cloud+"/instantiate", "")
}

// cluster registers a cluster with the label "all".
func (s *testStage) cluster(name, syncObject string) {
	s.Helper()
	s.expect(201, "POST", provider+"/clusters",
		`{"metadata":{"name":"`+name+`"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"`+syncObject+`"}}}`)
	s.expect(201, "POST", provider+"/clusters/"+name+"/labels", `{"clusterLabel":"all"}`)
}

// member makes a cluster part of the logical cloud.
func (s *testStage) member(cluster string) {
	s.Helper()
	s.expect(201, "POST", cloud+"/cluster-references",
		`{"metadata":{"name":"`+cluster+`"},"spec":{"clusterProvider":"edge","cluster":"`+cluster+`"}}`)
}

func (s *testStage) syncObject(name, url, token string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"kv":[{"url":"` + url + `"},{"userName":"` + writer + `"},{"gitToken":"` + token + `"},{"branch":"` + branch + `"}]}}`
}

func named(name string) string { return `{"metadata":{"name":"` + name + `"}}` }

// onboard makes the composite app "till" of apps with one ConfigMap each, with a profile.
func (s *testStage) onboard(apps ...string) {
	s.Helper()
	s.expect(201, "POST", "projects/shop/composite-apps", `{"metadata":{"name":"till"},"spec":{"compositeAppVersion":"v1"}}`)
	s.expect(201, "POST", till+"/composite-profiles", named("small"))
	for _, app := range apps {
		s.app(app)
	}
}

// app makes an app of one ConfigMap, with its profile.
func (s *testStage) app(name string) {
	s.Helper()
	s.upload("POST", till+"/apps", named(name), s.chart(name, configMap))
	s.profile("POST", till+"/composite-profiles/small/profiles", name, "profile")
}

// profile creates or replaces the profile of an app, with one value.
func (s *testStage) profile(method, path, app, greeting string) {
	s.Helper()
	s.upload(method, path, `{"metadata":{"name":"`+app+`"},"spec":{"app":"`+app+`"}}`, s.pack(map[string]string{
		"manifest.yaml":        "version: v1\ntype:\n  values: override_values.yaml\n",
		"override_values.yaml": "greeting: " + greeting + "\n",
	}))
}

// Templates of charts.
const (
	configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-{{ .Chart.Name }}\ndata:\n  greeting: {{ .Values.greeting | quote }}\n"
	nameless  = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels: {a: b}\n"
)

// repack replaces the chart of an app.
func (s *testStage) repack(app, template string) {
	s.Helper()
	s.upload("PUT", till+"/apps/"+app, named(app), s.chart(app, template))
}

func (s *testStage) chart(name, template string) []byte {
	s.Helper()
	return s.pack(map[string]string{
		name + "/Chart.yaml":            "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n",
		name + "/values.yaml":           "greeting: chart\n",
		name + "/templates/object.yaml": template,
	})
}

func (s *testStage) pack(files map[string]string) []byte {
	s.Helper()
	packed, err := rendertest.Pack(files)
	s.must("pack", err)
	return packed
}

// testGroup is a deployment intent group by its path, with what a test does to it.
type testGroup struct {
	*testStage
	path string
}

// appPlaces lists each app's clusters; an app without names goes to all clusters with
// the label "all".
type appPlaces map[string][]string

// group makes a deployment intent group, approved, with its placement.
func (s *testStage) group(name string, p appPlaces) testGroup {
	s.Helper()
	g := testGroup{s, till + "/deployment-intent-groups/" + name}
	s.expect(201, "POST", till+"/deployment-intent-groups",
		`{"metadata":{"name":"`+name+`"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	s.expect(201, "POST", g.path+"/generic-placement-intents", named("places"))
	for _, app := range slices.Sorted(maps.Keys(p)) {
		g.place(app, p[app]...)
	}
	s.expect(201, "POST", g.path+"/intents", `{"metadata":{"name":"all"},"spec":{"intent":{"genericPlacementIntent":"places"}}}`)
	g.act("approve")
	return g
}

// running registers clusters and instantiates the app "web" on all of them, as the group "autumn".
func (s *testStage) running(clusters ...string) testGroup {
	s.Helper()
	s.fleet(clusters...)
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	g.becomes("Instantiated")
	return g
}

// place makes the placement of an app; without names, it goes to all clusters with the label "all".
func (g testGroup) place(app string, clusters ...string) {
	g.Helper()
	selectors := []v2.Selector{{Provider: "edge", Label: "all"}}
	if len(clusters) > 0 {
		selectors = nil
	}
	for _, c := range clusters {
		selectors = append(selectors, v2.Selector{Provider: "edge", Cluster: c})
	}
	text, err := json.Marshal(selectors)
	g.must("write selectors", err)
	g.expect(201, "POST", g.path+"/generic-placement-intents/places/app-intents",
		fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"app":%q,"intent":{"allOf":%s}}}`, app, app, text))
}

// act runs an action, which must be accepted.
func (g testGroup) act(name string) {
	g.Helper()
	g.expect(202, "POST", g.path+"/"+name, "")
}

// status reads the status in the view of the synchroniser.
func (g testGroup) status() v2.Status { return g.query("?status=deployed") }

func (g testGroup) query(q string) (st v2.Status) {
	g.Helper()
	g.must("read the status", json.Unmarshal([]byte(g.expect(200, "GET", g.path+"/status"+q, "")), &st))
	return st
}

// becomes waits for a deployedStatus and returns the status.
func (g testGroup) becomes(want string) (st v2.Status) {
	g.Helper()
	g.eventually(g.path+" becomes "+want, func() string {
		st = g.status()
		return unless(st.DeployedStatus, want)
	})
	return st
}

// pairs is a status in short: "app cluster phase" in order.
func pairs(st v2.Status) (out []string) {
	for _, a := range st.Apps {
		for _, c := range a.Clusters {
			out = append(out, a.Name+" "+c.Cluster+" "+c.Phase)
		}
	}
	return out
}

// pair finds an app on a cluster; a zero one if it is not there.
func pair(st v2.Status, app, cluster string) v2.ClusterStatus {
	for _, a := range st.Apps {
		for _, c := range a.Clusters {
			if a.Name == app && c.Cluster == cluster {
				return c
			}
		}
	}
	return v2.ClusterStatus{}
}

// history is the actions in short: "state instance revision", where the deployment's
// own id is written as "first" and other ids as "other".
func history(st v2.Status) (out []string) {
	for _, a := range st.States.Actions {
		instance := "other"
		switch a.Instance {
		case "":
			instance = "-"
		case st.States.StatusCtxID:
			instance = "first"
		}
		out = append(out, fmt.Sprintf("%s %s %d", a.State, instance, a.Revision))
	}
	return out
}

// tree lists the files of the branch.
func (s *testStage) tree() []string {
	s.Helper()
	paths, err := s.read.paths(s.Context(), branch)
	s.must("list the branch", err)
	return paths
}

// file reads a file of the branch.
func (s *testStage) file(path string) string {
	s.Helper()
	text, err := s.read.file(s.Context(), branch, path)
	s.must("read "+path, err)
	return text
}

func (s *testStage) wantTree(want ...string) {
	s.Helper()
	want = append(want, "README.md")
	slices.Sort(want)
	if got := s.tree(); !slices.Equal(got, want) {
		s.Errorf("the branch holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// object is the path of an app's one file on a cluster.
func object(cluster, id, app string) string {
	return "clusters/edge+" + cluster + "/context/" + id + "/app/" + app + "/r1-" + app + "+ConfigMap.yaml"
}

func wantEqual[T any](s *testStage, what string, got, want []T) {
	s.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("%s: got\n%v\nwant\n%v", what, got, want)
	}
}

// unless complains if got is not want.
func unless[T cmp.Ordered](got, want T) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("got %v, want %v", got, want)
}
