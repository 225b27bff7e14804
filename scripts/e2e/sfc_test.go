package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/flux"
)

// TestServiceFunctionChains runs the suite examples/emco/sfc: c1 is a direct cluster, c2 has Flux, and both have
// the definition of NetworkChaining, so that API servers check the objects. Nodus does not run.
func TestServiceFunctionChains(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters with the definition of NetworkChaining, two functions and a client")
	l, s := clustersOf(t), newStage(t)
	l.follow(s)
	define(t, local("testdata", "networkchaining.yaml"), l.c1, l.c2)
	file := func(name string) string { return example("emco", "sfc", name) }
	values := s.values(map[string]any{
		"GitURL": s.git.URL(repoName), "GitUser": writer, "GitToken": s.writeToken, "Kubeconfig": l.c1.Kubeconfig(),
		"FluxSecret": flux.Namespace, "SyncInterval": "1", "Packages": s.packages("web", "cache", "telemetry"),
	})
	s.apply(values, file("00-clusters.yaml"), file("01-app.yaml"), file("02-deployment.yaml"), file("03-chain.yaml"))
	s.apply(values, file("04-instantiate.yaml"))
	s.wait(group, "instantiated")
	const chainings = "networkchainings.k8s.plugin.opnfv.org"
	wants := func(c *cluster.Cluster, of, path, value string) {
		t.Helper()
		eventually(t, of+" on "+c.Name(), func() error { // Flux applies after the commit
			if got, err := c.Kubectl(t.Context(), "get", of, "-o", "jsonpath={"+path+"}"); err != nil || !strings.Contains(got, value) {
				return errors.New(path + " is " + got + ", want " + value)
			}
			return nil
		})
	}
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		available(t, c, "r1-telemetry")
		available(t, c, "r1-cache")
		wants(c, chainings, ".items[*].spec.routingSpec.networkChain", "net=left-net,chain=telemetry,net=middle-net,chain=cache,net=right-net")
		wants(c, chainings, ".items[*].spec.routingSpec.right[*].networkName", "right-provider")
		wants(c, "pods", ".items[*].metadata.labels.chain", "telemetry")
	}
	available(t, l.c2, "r1-web")
	wants(l.c2, "deployment/r1-web", ".spec.template.metadata.labels.chain", "left")

	do.next("an update of a network")
	s.apply(values, file("05-update.yaml"))
	s.wait(group, "instantiated")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		wants(c, chainings, ".items[*].spec.routingSpec.right[*].networkName", "centre")
	}

	do.next("terminate")
	s.terminate(group, l.c1, l.c2)
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		eventually(t, "chains leave "+c.Name(), func() error {
			if left := kubectl(t, c, "get", chainings, "-o", "name"); left != "" {
				return errors.New("still there: " + left)
			}
			return nil
		})
	}
	s.sound()
	s.clear(values, file("00-clusters.yaml"), file("01-app.yaml"), file("02-deployment.yaml"), file("03-chain.yaml"))
	do.next("done")
}
