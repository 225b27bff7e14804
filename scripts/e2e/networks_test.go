package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// TestNetworks runs the suite examples/emco/networks: c1 is a direct cluster, c2 has Flux, and both have
// definitions of Network and ProviderNetwork, so that API servers check every object.
func TestNetworks(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters with definitions of networks")
	l, s := clustersOf(t), newStage(t)
	l.follow(s)
	define(t, "testdata/nodus.yaml", l.c1, l.c2)
	file := func(name string) string { return example("emco", "networks", name) }
	values := s.values(map[string]any{
		"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken, "Kubeconfig": l.c1.Kubeconfig(),
		"FluxSecret": flux.Namespace, "SyncInterval": "1", "Packages": s.packages("web"),
	})
	s.apply(values, file("00-clusters.yaml"), file("01-networks.yaml"))

	do.next("apply")
	s.apply(values, file("02-apply.yaml"))
	want := func(c *cluster.Cluster, of, path, value string) {
		t.Helper()
		eventually(t, of+" on "+c.Name(), func() error {
			got := kubectl(t, c, "get", of, "--ignore-not-found", "-o", "jsonpath={"+path+"}")
			if !strings.Contains(got, value) {
				return errors.New(path + " is " + got + ", want " + value)
			}
			return nil
		})
	}
	want(l.c1, "networks.k8s.plugin.opnfv.org/tills", ".spec.ipv4Subnets[0].subnet", "10.20.0.0/24")
	want(l.c2, "networks.k8s.plugin.opnfv.org/tills", ".spec.ipv4Subnets[0].gateway", "10.20.1.1/24")
	want(l.c1, "providernetworks.k8s.plugin.opnfv.org/branch", ".spec.vlan.vlanId", "100")
	want(l.c2, "providernetworks.k8s.plugin.opnfv.org/branch", ".spec.vlan.nodeLabelList[0]", "kubernetes.io/os=linux")
	for _, name := range []string{"c1", "c2"} {
		eventually(t, "the status of the networks of "+name, func() error {
			text := s.ctl("get", "cluster-providers/edge/clusters/"+name+"/status?status=deployed&output=summary")
			if !strings.Contains(text, "Instantiated") {
				return errors.New(text)
			}
			return nil
		})
	}

	do.next("an app with interfaces in the networks")
	s.apply(values, file("03-app.yaml"), file("04-deployment.yaml"), file("05-interfaces.yaml"))
	s.apply(values, file("06-instantiate.yaml"))
	s.wait(group, "instantiated")
	const interfaces = `.spec.template.metadata.annotations['k8s\.plugin\.opnfv\.org/nfn-network']`
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		available(t, c, "r1-web")
		want(c, "deployment/r1-web", interfaces, `"interface":"net1","name":"branch"`)
		want(c, "deployment/r1-web", `.spec.template.metadata.annotations['k8s\.v1\.cni\.cncf\.io/networks']`, `"ovn-networkobj"`)
	}
	s.apply(values, file("07-update.yaml"))
	s.wait(group, "instantiated")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		want(c, "deployment/r1-web", interfaces, `"interface":"net1","name":"tills"`)
	}

	do.next("terminate")
	s.terminate(group, l.c1, l.c2)
	s.ctl("delete", "-f", file("02-apply.yaml"))
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		eventually(t, "networks leave "+c.Name(), func() error { // Flux removes them after the commit
			if left := kubectl(t, c, "get", "networks.k8s.plugin.opnfv.org,providernetworks.k8s.plugin.opnfv.org", "-o", "name"); left != "" {
				return errors.New("still there: " + left)
			}
			return nil
		})
	}
	s.sound()
	s.clear(values, file("00-clusters.yaml"), file("01-networks.yaml"), file("03-app.yaml"), file("04-deployment.yaml"), file("05-interfaces.yaml"))
	do.next("done")
}
