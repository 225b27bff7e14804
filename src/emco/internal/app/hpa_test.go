package app_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// The suite examples/emco/hpa with emcoctl: needs leave a cluster out, preferences choose two of the
// others, an update without a changed fact moves nothing, and one with a changed fact does.
func TestPlacementByNeedsAndPreferences(t *testing.T) {
	t.Parallel()
	s := newExampleSuite(t, "hpa", "web")
	s.apply("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-needs.yaml")
	placed := func() (out []string) {
		t.Helper()
		var answer v2.PlacementAnswer
		s.must("read the placement", json.Unmarshal([]byte(s.expect(200, "GET", suiteGroup+"/placement", "")), &answer))
		for _, p := range answer.Placements {
			if p.Verdict != "in" || p.Score == nil || !strings.Contains(p.Reason, "score") {
				t.Errorf("a chosen cluster is %+v", p)
			}
			out = append(out, p.Cluster.Cluster())
		}
		return out
	}
	if got := placed(); !slices.Equal(got, []string{"c1", "c4"}) {
		t.Fatalf("web goes to %v, want c1 and c4", got)
	}
	shown := s.ctl("placement", "shop/till/v1/autumn")
	for _, part := range []string{"has 1073741824 of memory free, and 2147483648 are needed", "number 1 of 3", "number 3 of 3", "and 2 are wanted", "in berlin", "in paris"} {
		if !strings.Contains(shown, part) {
			t.Errorf("the explanation lacks %q:\n%s", part, shown)
		}
	}
	var explained v2.PlacementAnswer
	s.must("read the placement", json.Unmarshal([]byte(s.expect(200, "GET", suiteGroup+"/placement?explain=true&cluster=edge%2Bc2&app=web", "")), &explained))
	if len(explained.Placements) != 1 || explained.Placements[0].Verdict != "out" || explained.Placements[0].Cluster != "edge+c2" {
		t.Errorf("c2 is explained as %+v", explained.Placements)
	}
	s.expect(400, "GET", suiteGroup+"/placement?explain=maybe", "")
	s.expect(400, "GET", suiteGroup+"/placement?why=true", "")

	s.apply("04-instantiate.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	s.has("c1", "web", "r1-web+Deployment", "memory: 1Gi", "memory: 2Gi", "cpu: 500m", "nodes.example.org/disk: ssd")
	before := s.tree()
	s.ctl("apply", suiteGroup+"/update")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	if now := s.tree(); !slices.Equal(before, now) {
		t.Errorf("an update without a change moves the app from\n%s\nto\n%s", strings.Join(before, "\n"), strings.Join(now, "\n"))
	}
	s.apply("05-update.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	if got := placed(); !slices.Equal(got, []string{"c1", "c2"}) {
		t.Errorf("with more memory on c2 web goes to %v, want c1 and c2", got)
	}
	s.has("c2", "web", "r1-web+Deployment", "memory: 2Gi")
	s.ctl("delete", "-f", s.file("04-instantiate.yaml"))
	s.ctl("wait", suiteGroup, "--for=terminated")
	s.clear("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-needs.yaml")
}
