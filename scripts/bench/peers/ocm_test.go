package peers

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// An app of Open Cluster Management has all its objects, in the namespace where the clusters are looked at.
func TestAReplicaSetHasAllObjects(t *testing.T) {
	t.Parallel()
	w := world.New(world.Spec{Apps: 1, Clusters: 1, Resources: 2, Bytes: 200, Shared: true})
	pair := w.Make(world.Change{Kind: world.Install})[0]
	text := string(replicaSet(pair))
	for r := range 2 {
		if want := "        metadata:\n          namespace: default\n          name: " + pair.App + "-" + world.Resource(r) + "\n"; !strings.Contains(text, want) {
			t.Errorf("the replica set lacks %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n      - apiVersion: v1\n"); n != 2 {
		t.Errorf("%d objects, want 2:\n%s", n, text)
	}
}
