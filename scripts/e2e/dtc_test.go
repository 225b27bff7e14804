package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// The release of Istio's API whose definitions the objects must pass, and the checksum of its sources.
const (
	istioAPI    = "istio.io/api@v1.24.2"
	istioAPISum = "h1:jYjcN6Iq0RPtQj/3KMFsybxmfqmjGN/dxhL7FGJEdIM="
)

// istioDefinitions returns the file of Istio's definitions.
func istioDefinitions(t *testing.T) string {
	t.Helper()
	return filepath.Join(moduleDir(t, istioAPI, istioAPISum), "kubernetes", "customresourcedefinitions.gen.yaml")
}

// moduleDir returns the folder with the sources of a module, which must have a checksum. It builds nothing.
func moduleDir(t *testing.T, path, sum string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", path)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("download %s: %v\n%s", path, err, out)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil || module.Sum != sum {
		t.Fatalf("the sources of %s have the sum %q, want %q (%v)", path, module.Sum, sum, err)
	}
	return module.Dir
}

// TestTrafficController runs the suite examples/emco/dtc: c1 is a direct cluster, c2 has Flux, and both
// have Istio's definitions, so that API servers check every object.
func TestTrafficController(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters with Istio's definitions, two apps with a traffic group intent")
	l, s := clustersOf(t), newStage(t)
	l.follow(s)
	define(t, istioDefinitions(t), l.c1, l.c2)
	file := func(name string) string { return example("emco", "dtc", name) }
	values := s.values(map[string]any{
		"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken, "Kubeconfig": l.c1.Kubeconfig(),
		"FluxSecret": flux.Namespace, "SyncInterval": "1", "Packages": s.packages("web", "cache"),
	})
	s.apply(values, file("00-clusters.yaml"), file("01-app.yaml"), file("02-deployment.yaml"), file("03-traffic.yaml"))
	s.apply(values, file("04-instantiate.yaml"))
	s.wait(group, "instantiated")
	available(t, l.c1, "r1-web")
	available(t, l.c2, "r1-cache")
	want := func(c *cluster.Cluster, of, path, value string) {
		t.Helper()
		if got := kubectl(t, c, "get", of, "-o", "jsonpath={"+path+"}"); !strings.Contains(got, value) {
			t.Errorf("%s of %s on %s is %q, want %q", path, of, c.Name(), got, value)
		}
	}
	want(l.c1, "networkpolicies", ".items[*].spec.ingress[*].ports[*].port", "8080")
	want(l.c1, "gateways.networking.istio.io", ".items[*].spec.servers[*].tls.mode", "AUTO_PASSTHROUGH")
	want(l.c1, "gateways.networking.istio.io", ".items[*].spec.servers[*].hosts", "till.example.org")
	want(l.c1, "virtualservices.networking.istio.io", ".items[*].spec.hosts", "till.example.org")
	want(l.c1, "authorizationpolicies.security.istio.io", ".items[*].spec.rules[*].to[*].operation.methods", "GET")
	want(l.c1, "destinationrules.networking.istio.io", ".items[*].spec.trafficPolicy.tls.mode", "ISTIO_MUTUAL")
	want(l.c1, "endpointslices.discovery.k8s.io", ".items[*].endpoints[*].addresses", "192.0.2.2")
	want(l.c1, "service/r1-cache", ".spec.ports[0].port", "6379")
	want(l.c2, "serviceentries.networking.istio.io", ".items[*].spec.endpoints[*].address", "192.0.2.1")
	want(l.c2, "networkpolicies", ".items[*].spec.ingress[*].from[*].ipBlock.cidr", "192.0.2.0/24")

	do.next("an update of an access point")
	on2 := identities(t, l.c2)
	s.apply(values, file("05-update.yaml"))
	s.wait(group, "instantiated")
	want(l.c1, "authorizationpolicies.security.istio.io", ".items[*].spec.rules[*].to[*].operation.methods", "PUT")
	if now := identities(t, l.c2); now != on2 {
		t.Errorf("objects on c2 changed:\n%s\nbefore:\n%s", now, on2)
	}

	do.next("terminate")
	s.terminate(group, l.c1, l.c2)
	kinds := "networkpolicies,gateways.networking.istio.io,serviceentries.networking.istio.io,authorizationpolicies.security.istio.io"
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		eventually(t, "traffic objects leave "+c.Name(), func() error { // Flux removes them after the commit
			if left := kubectl(t, c, "get", kinds, "-o", "name"); left != "" {
				return errors.New("still there: " + left)
			}
			return nil
		})
	}
	s.sound()
	s.clear(values, file("00-clusters.yaml"), file("01-app.yaml"), file("02-deployment.yaml"), file("03-traffic.yaml"))
	do.next("done")
}
