package app_test

import (
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

const ( // of the suite
	suiteCluster1 = "cluster-providers/edge/clusters/c1"
	suiteCluster2 = "cluster-providers/edge/clusters/c2"
)

// The suite examples/emco/networks with emcoctl, on two clusters that pull from Git: each cluster gets its
// networks, and the pods of the app get interfaces in them. What is applied does not change, and keeps its cluster.
func TestNetworksOfClusters(t *testing.T) {
	t.Parallel()
	s := newExampleSuite(t, "networks", "web")
	s.apply("00-clusters.yaml", "01-networks.yaml")
	on1, on2 := s.lines(suiteCluster1+"/status?status=deployed&watch=true"), s.lines(suiteCluster2+"/status?status=deployed&watch=true")
	on1("created", func(st v2.Status) bool { return st.Name == "c1" && st.Cluster == nil })
	s.apply("02-apply.yaml")
	applied := func(st v2.Status) bool {
		return st.DeployedStatus == "Instantiated" && st.Cluster != nil && len(st.Cluster.Resources) == 2
	}
	on1("applied", applied)
	on2("applied", applied)
	network := func(cluster, object string) string {
		return "clusters/edge+" + strings.TrimPrefix(cluster, "cluster-providers/edge/clusters/") + "/context/" + s.contextOf(cluster) + "/app/network-intents/" + object + ".yaml"
	}
	for path, parts := range map[string][]string{
		network(suiteCluster1, "tills+Network"):          {"apiVersion: k8s.plugin.opnfv.org/v1alpha1", "namespace: default", "subnet: 10.20.0.0/24", "excludeIps: 10.20.0.2 10.20.0.5..10.20.0.9"},
		network(suiteCluster2, "tills+Network"):          {"subnet: 10.20.1.0/24"},
		network(suiteCluster2, "branch+ProviderNetwork"): {"providerNetType: VLAN", `vlanId: "100"`, "vlanNodeSelector: specific"},
	} {
		text := s.testStage.file(path)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %s:\n%s", path, part, text)
			}
		}
	}
	s.apply("01-networks.yaml", "02-apply.yaml") // again: nothing changes
	s.expect(409, "DELETE", suiteCluster1+"/networks/tills", "")
	s.expect(409, "DELETE", suiteCluster1, "")

	s.apply("03-app.yaml", "04-deployment.yaml", "05-interfaces.yaml")
	s.apply("06-instantiate.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	for _, cluster := range []string{"c1", "c2"} {
		s.has(cluster, "web", "r1-web+Deployment", "checksum/config", `k8s.v1.cni.cncf.io/networks: '[{"name":"ovn-networkobj","namespace":"default"}]'`,
			`"interface":"net1","name":"branch"`, `"interface":"net0","name":"tills"`)
	}
	s.apply("07-update.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	s.has("c2", "web", "r1-web+Deployment", `"interface":"net1","name":"tills"`)

	s.ctl("delete", "-f", s.file("06-instantiate.yaml"))
	s.ctl("wait", suiteGroup, "--for=terminated")
	s.ctl("delete", "-f", s.file("02-apply.yaml"))
	terminated := func(st v2.Status) bool { return st.DeployedStatus == "Terminated" }
	on1("terminated", terminated)
	on2("terminated", terminated)
	s.wantTree()
	s.clear("00-clusters.yaml", "01-networks.yaml", "03-app.yaml", "04-deployment.yaml", "05-interfaces.yaml")
}
