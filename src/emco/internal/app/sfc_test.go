package app_test

import (
	"strings"
	"testing"
)

// The suite examples/emco/sfc with emcoctl, on two clusters that pull from Git: each gets the chain, the pods
// of functions and of the client get their labels, and an update changes the chain alone.
func TestServiceFunctionChains(t *testing.T) {
	t.Parallel()
	s := newExampleSuite(t, "sfc", "web", "cache", "telemetry")
	s.apply("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-chain.yaml")
	s.apply("04-instantiate.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	chains := map[string]bool{}
	for _, file := range s.tree() {
		if strings.HasSuffix(file, "+NetworkChaining.yaml") {
			chains[file] = true
			for _, part := range []string{
				"networkChain: net=left-net,chain=telemetry,net=middle-net,chain=cache,net=right-net", "networkName: right-provider", "gatewayIp: 172.30.10.2",
				"chain: left", "kubernetes.io/metadata.name: default", "emco/deployment-id: " + s.contextOf(suiteGroup) + "-telemetry",
			} {
				if text := s.testStage.file(file); !strings.Contains(text, part) {
					t.Errorf("%s lacks %s:\n%s", file, part, text)
				}
			}
		}
	}
	if len(chains) != 2 {
		t.Errorf("the chain is in %v, want one file for each cluster", chains)
	}
	for _, cluster := range []string{"c1", "c2"} {
		s.has(cluster, "telemetry", "r1-telemetry+Deployment", "        chain: telemetry\n")
		s.has(cluster, "cache", "r1-cache+Deployment", "        chain: cache\n")
	}
	s.has("c2", "web", "r1-web+Deployment", "        chain: left\n")

	before := map[string]string{}
	for _, file := range s.tree() {
		before[file] = s.testStage.file(file)
	}
	s.apply("05-update.yaml")
	s.ctl("wait", suiteGroup, "--for=instantiated")
	for _, file := range s.tree() {
		text := s.testStage.file(file)
		if chains[file] && !strings.Contains(text, "networkName: centre") {
			t.Errorf("the update does not change %s:\n%s", file, text)
		}
		if !chains[file] && text != before[file] {
			t.Errorf("the update of the chain changes %s", file)
		}
	}
	s.ctl("delete", "-f", s.file("04-instantiate.yaml"))
	s.ctl("wait", suiteGroup, "--for=terminated")
	s.clear("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", "03-chain.yaml")
}
