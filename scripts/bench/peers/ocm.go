package peers

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/ocm"

	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// OpenClusterManagement is Open Cluster Management: an app is a ManifestWorkReplicaSet with all its objects, and a placement of all
// clusters. It has no Git: the change is durable when the API server of the hub has acknowledged it.
func OpenClusterManagement() EdgeMaker {
	return EdgeMaker{Name: "Open Cluster Management", New: func(dir string) Edge {
		return &ocmEdge{hub: realCluster{dir: filepath.Join(dir, "hub")}, clusters: realClusters{dir: dir}}
	}}
}

type ocmEdge struct {
	hub      realCluster // its agent is the controllers of the hub
	clusters realClusters
}

func (e *ocmEdge) Prepare(ctx context.Context, s world.Spec, _ time.Duration) error {
	if err := e.hub.start(ctx); err != nil {
		return err
	}
	h, err := ocm.Start(ctx, e.hub.cluster)
	if err != nil {
		return err
	}
	e.hub.agent = h
	return e.clusters.start(ctx, s.Clusters, func(ctx context.Context, i int, c *cluster.Cluster) (agent, error) {
		a, err := h.Join(ctx, world.Cluster(i), c)
		if err != nil {
			return nil, err
		}
		return a, nil
	})
}

const replicaSets = "/apis/work.open-cluster-management.io/v1alpha1/namespaces/default/manifestworkreplicasets/"

func (e *ocmEdge) Converge(ctx context.Context, t Turn) (time.Duration, error) {
	for _, pair := range t.Pairs {
		if pair.Cluster != world.Cluster(0) {
			continue // the others have the same objects
		}
		if _, err := e.hub.do(ctx, http.MethodPatch, replicaSets+pair.App+"?fieldManager=bench&force=true", replicaSet(pair)); err != nil {
			return 0, err
		}
	}
	return e.clusters.live(ctx, t.World, time.Now())
}

// replicaSet has all objects of an app, for namespace default.
func replicaSet(pair world.Pair) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "apiVersion: work.open-cluster-management.io/v1alpha1\nkind: ManifestWorkReplicaSet\nmetadata: {name: %s, namespace: default}\nspec:\n"+
		"  placementRefs: [{name: %s, rolloutStrategy: {type: All}}]\n  manifestWorkTemplate:\n    workload:\n      manifests:\n", pair.App, ocm.Placement)
	for _, file := range slices.Sorted(maps.Keys(pair.Files)) {
		text := strings.Replace(string(pair.Files[file]), "metadata:\n", "metadata:\n  namespace: default\n", 1)
		bullet := "      - "
		for line := range strings.Lines(text) {
			out.WriteString(bullet + line)
			bullet = "        "
		}
	}
	return []byte(out.String())
}

func (e *ocmEdge) Processes() Processes {
	return Processes{Control: e.hub.control(), Clusters: e.clusters.agents()}
}

func (e *ocmEdge) Close(context.Context) error {
	e.clusters.stop()
	e.hub.stop()
	return nil
}
