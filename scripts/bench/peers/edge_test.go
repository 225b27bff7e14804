package peers

import (
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// A hub writes each app to each cluster with the cluster's own kubeconfig.
func TestAHubNamesTheClusterOfEachApp(t *testing.T) {
	t.Parallel()
	text := spoke(world.Cluster(2), world.App(1), time.Second)
	for _, want := range []string{"  name: g0002-app01\n", "  path: ./apps/app01\n", "  kubeConfig:\n    secretRef:\n      name: g0002\n", "  retryInterval: 1s\n", "  interval: 10m0s\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Kustomization lacks %q:\n%s", want, text)
		}
	}
}

// A cluster has a world only when each object has its version.
func TestAClusterHasAllOrIsBehind(t *testing.T) {
	t.Parallel()
	w := world.New(world.Spec{Apps: 2, Clusters: 1, Resources: 1, Bytes: 200, Shared: true})
	w.Make(world.Change{Kind: world.Install})
	w.Make(world.Change{Kind: world.Value, App: 1})
	versions := map[string]string{"app00-r00": "0", "app01-r00": "0", "kube-root-ca.crt": ""}
	if err := holdsAll(versions, w); err == nil || !strings.Contains(err.Error(), "app01-r00") || strings.Contains(err.Error(), "app00-r00") {
		t.Errorf("got %v, want that app01-r00 alone is missing", err)
	}
	versions["app01-r00"] = "1"
	if err := holdsAll(versions, w); err != nil {
		t.Errorf("got %v, want that the cluster has all", err)
	}
}
