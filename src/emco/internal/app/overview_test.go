package app_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// view reads a view.
func view[T any](s *testStage, path string) (out T) {
	s.Helper()
	s.must("read the view "+path, json.Unmarshal([]byte(s.expect(200, "GET", "views/"+path, "")), &out))
	return out
}

// The views agree with the status through the whole life of a deployment.
func TestViewsFollowDeployments(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b", "c")
	s.onboard("cache", "web")
	g := s.group("autumn", appPlaces{"web": nil, "cache": {"a"}})
	deployed := func(want string) {
		t.Helper()
		s.eventually("the view of deployments says "+want, func() string {
			page := view[v2.DeploymentViews](s, "deployments?q=autumn")
			if len(page.Items) == 1 && page.Items[0].Deployed == want {
				return ""
			}
			text, _ := json.Marshal(page)
			return string(text)
		})
	}
	if d := view[v2.DeploymentViews](s, "deployments").Items[0]; d.Path != g.path || d.Lifecycle != "Approved" || d.State != "idle" {
		t.Errorf("before it is instantiated: %+v", d)
	}
	g.act("instantiate")
	deployed("Instantiated")
	g.becomes("Instantiated")
	d := view[v2.DeploymentViews](s, "deployments").Items[0]
	if d.Revision != 1 || d.Apps != 2 || d.Clusters != 3 || d.Counts["unknown"] != 4 || d.State != "unknown" {
		t.Errorf("clusters that do not report: %+v", d)
	}
	m := view[v2.MatrixView](s, g.path+"/matrix")
	if m.Total != 3 || m.Items[0].Cells != "uu" || m.Items[1].Cells != "-u" || m.Items[0].Commit == "" {
		t.Errorf("the matrix: %+v", m)
	}
	p := view[v2.PlacementViews](s, g.path+"/placement?limit=3")
	if p.In != 4 || p.Out != 0 || p.Total != 4 || p.Continue == "" || p.Items[0].App != "cache" || p.Items[0].Cluster != "edge+a" || p.Items[0].Verdict != "in" || p.Items[0].Reason != "allOf: by name" {
		t.Errorf("the placement: %+v", p)
	}
	if p := view[v2.PlacementViews](s, g.path+"/placement?app=web&verdict=out"); p.In != 3 || p.Total != 0 {
		t.Errorf("the placement of web: %+v", p)
	}
	c := view[v2.ClusterDetail](s, "clusters/edge/a")
	if len(c.Places) != 2 || c.Places[0].Name != "cache" || c.Places[0].Group != "autumn" || c.Type != "git" {
		t.Errorf("the cluster: %+v", c)
	}
	if f := view[v2.FleetView](s, "fleet"); f.Pairs["unknown"] != 4 || f.Groups[0].Cells != "uuu" || f.Mark == 0 {
		t.Errorf("the fleet: %+v", f)
	}
	g.act("terminate")
	deployed("Terminated")
	if st := g.becomes("Terminated"); len(st.Leaving) > 0 {
		t.Errorf("the status: %+v", st)
	}
	if f := view[v2.FleetView](s, "fleet"); f.Clusters["idle"] != 3 || len(f.Pairs) > 0 {
		t.Errorf("the empty fleet: %+v", f)
	}
	if a := s.do("GET", "views/fleet?provder=edge", ""); a.Status != 400 || !strings.Contains(a.Body, "did you mean provider?") {
		t.Errorf("a misspelt parameter: %+v", a)
	}
}

// The commits of a branch name the revisions that they carried, and a search finds these by a part of the
// commit's name, and the deployment by a path on the branch.
func TestCommitsLeadToDeployments(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	g.act("instantiate")
	commit := pair(g.becomes("Instantiated"), "web", "a").Commit
	theirs := s.foreign(map[string]string{"README.md": "hello"})
	page := view[v2.CommitViews](s, "git/"+v2.LaneID(s.git.URL("fleet"), branch)+"/commits")
	if len(page.Items) < 2 || page.Branch != branch || page.Items[0].Commit != theirs || page.Items[0].Ours || len(page.Items[0].Groups) > 0 {
		t.Fatalf("the newest commit is by somebody else: %+v", page)
	}
	if c := page.Items[1]; c.Commit != commit || !c.Ours || c.Clusters != 2 || len(c.Groups) != 1 || c.Groups[0].Path != g.path || c.Groups[0].Revision != 1 || c.Title == "" || c.Time.IsZero() {
		t.Errorf("the commit of the deployment: %+v", c)
	}
	found := view[v2.SearchView](s, "search?q="+commit[:12])
	if len(found.Hits) != 1 || found.Hits[0].Kind != "commit" || found.Hits[0].Title != commit {
		t.Fatalf("the search finds %+v", found)
	}
	if rev := s.expect(200, "GET", strings.TrimPrefix(found.Hits[0].Href, "/v2/"), ""); !strings.Contains(rev, commit) {
		t.Errorf("the hit leads to %s", rev)
	}
	if found := view[v2.SearchView](s, "search?q="+theirs); len(found.Hits) > 0 {
		t.Errorf("a commit of others is found: %+v", found)
	}
	i := slices.IndexFunc(s.tree(), func(path string) bool { return strings.HasPrefix(path, "clusters/edge+b/context/") })
	found = view[v2.SearchView](s, "search?q="+url.QueryEscape(s.tree()[i]))
	if len(found.Hits) != 1 || found.Hits[0].Href != "/v2/views/"+g.path+"/matrix" {
		t.Errorf("the search for %s finds %+v", s.tree()[i], found)
	}
}
