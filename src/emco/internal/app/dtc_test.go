package app_test

import (
	"slices"
	"strings"
	"testing"
)

// The suite examples/emco/dtc with emcoctl, on two clusters that pull from Git: each cluster gets the
// objects of its services and those for discovery of the other's. An update changes one object.
func TestTheTrafficController(t *testing.T) {
	t.Parallel()
	s := newExampleSuite(t, "dtc", "web", "cache")
	s.apply("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-traffic.yaml")
	s.apply("04-instantiate.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	objects := func(cluster, app string) (out []string) {
		under := strings.TrimSuffix(s.delivered(cluster, app, ""), ".yaml")
		for _, file := range s.tree() {
			if name, ok := strings.CutPrefix(file, under); ok {
				out = append(out, strings.TrimSuffix(name, ".yaml"))
			}
		}
		return out
	}
	want := func(cluster, app string, names ...string) {
		t.Helper()
		if got := objects(cluster, app); !slices.Equal(got, names) {
			t.Errorf("%s on %s is %q, want %q", app, cluster, got, names)
		}
	}
	web, cache := objectOf(t, objects("c1", "web"), "Gateway"), objectOf(t, objects("c2", "cache"), "NetworkPolicy")
	want("c1", "web", cache+"+EndpointSlice", "r1-cache+Service", "r1-web+ConfigMap", "r1-web+Deployment", "r1-web+Service",
		web+"+AuthorizationPolicy", web+"+DestinationRule", web+"+Gateway", web+"+NetworkPolicy", web+"+VirtualService")
	want("c2", "cache", cache+"+NetworkPolicy", "r1-cache+Deployment", "r1-cache+PodDisruptionBudget", "r1-cache+Service", "r1-web+Service", web+"+DestinationRule", web+"+ServiceEntry")
	s.has("c1", "web", cache+"+EndpointSlice", "192.0.2.2", "kubernetes.io/service-name: r1-cache")
	s.has("c1", "web", web+"+Gateway", "AUTO_PASSTHROUGH", "till.example.org", "emco/deployment-id: "+s.contextOf(suiteGroup)+"-web")
	s.has("c2", "cache", web+"+ServiceEntry", "address: 192.0.2.1", "http-8080: 15443")
	s.has("c2", "cache", cache+"+NetworkPolicy", "cidr: 192.0.2.0/24", "app.kubernetes.io/name: web")

	before := map[string]string{}
	for _, file := range s.tree() {
		before[file] = s.testStage.file(file)
	}
	policy := s.delivered("c1", "web", web+"+AuthorizationPolicy")
	if !strings.Contains(before[policy], "GET") || strings.Contains(before[policy], "PUT") {
		t.Errorf("cache may do more than read:\n%s", before[policy])
	}
	s.apply("05-update.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	s.has("c1", "web", web+"+AuthorizationPolicy", "GET", "PUT")
	for _, file := range s.tree() {
		if file != policy && s.testStage.file(file) != before[file] {
			t.Errorf("the update of an access point changes %s", file)
		}
	}
	s.ctl("delete", "-f", s.file("04-instantiate.yaml"))
	s.ctl("wait", suiteGroup, "--for=terminated")
	s.clear("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-traffic.yaml")
}

// objectOf returns the name of the object of a kind.
func objectOf(t *testing.T, objects []string, kind string) string {
	t.Helper()
	for _, o := range objects {
		if name, ok := strings.CutSuffix(o, "+"+kind); ok {
			return name
		}
	}
	t.Fatalf("there is no %s in %q", kind, objects)
	return ""
}
