package app_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// The suite examples/emco/gac with emcoctl, on two clusters that pull from Git: patches of every
// kind, new objects, and values that differ by cluster. An update changes one class alone, and
// nothing is left at the end.
func TestTheGenericActionController(t *testing.T) {
	t.Parallel()
	s := newExampleSuite(t, "gac", "web")
	documents := []string{"00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-customizations.yaml"}
	s.apply(documents...)
	s.ctl("apply", suiteGroup+"/approve")
	plan := s.expect(200, "POST", suiteGroup+"/instantiate?dryRun=true", "")
	for _, part := range []string{"NetworkPolicy", "store-settings", "till-key"} {
		if !strings.Contains(plan, part) {
			t.Errorf("the plan lacks %s:\n%s", part, plan)
		}
	}
	s.apply("04-instantiate.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	has := func(cluster, object string, parts ...string) { t.Helper(); s.has(cluster, "web", object, parts...) }
	has("c1", "r1-web+Deployment", "replicas: 3")
	has("c2", "r1-web+Deployment", "replicas: 0", "size: small", "name: CLOSED", "containerPort: 8080")
	has("c1", "store-settings+ConfigMap", "currency = EUR", "zone: north", "emco/deployment-id: "+s.contextOf(suiteGroup)+"-web")
	has("c2", "store-settings+ConfigMap", "currency = EUR", "zone: south")
	has("c2", "till-key+Secret", "key: bm90LWEtcmVhbC1rZXk=")
	has("c1", "web+NetworkPolicy", "podSelector")
	has("c1", "r1-web+ConfigMap", "Welcome to the north")
	has("c2", "r1-web+ConfigMap", "Closed for the winter")
	if tree := strings.Join(s.tree(), "\n"); strings.Contains(tree, s.delivered("c2", "web", "web+NetworkPolicy")) {
		t.Errorf("c2 has the NetworkPolicy of c1:\n%s", tree)
	}

	before := s.testStage.file(s.delivered("c2", "web", "r1-web+Deployment"))
	if again := s.apply(documents...); strings.Contains(again, "created") {
		t.Errorf("a second apply makes documents:\n%s", again)
	}
	s.apply("05-update.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	has("c1", "r1-web+Deployment", "replicas: 4")
	if s.testStage.file(s.delivered("c2", "web", "r1-web+Deployment")) != before {
		t.Error("the update of large clusters changes c2")
	}
	s.ctl("delete", "-f", s.file("04-instantiate.yaml"))
	s.ctl("wait", suiteGroup, "--for=terminated")
	s.clear("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-customizations.yaml")
}

// contextOf returns the id of a deployment in Git paths.
func (s *testStage) contextOf(group string) string {
	s.Helper()
	var status struct {
		States struct{ StatusCtxID string }
	}
	s.must("read the status", json.Unmarshal([]byte(s.expect(200, "GET", group+"/status?status=deployed", "")), &status))
	return status.States.StatusCtxID
}
