package peers

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/karmada"

	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// KarmadaPush is Karmada with members that its control plane writes to. It has no Git: the change is durable when
// Karmada's API server has acknowledged its last object. An app is a PropagationPolicy that names its objects and all
// members.
func KarmadaPush() EdgeMaker {
	return EdgeMaker{Name: "Karmada, push", New: func(dir string) Edge { return newKarmadaEdge(dir, false) }}
}

// KarmadaPull is Karmada with an agent in each member. Otherwise as KarmadaPush.
func KarmadaPull() EdgeMaker {
	return EdgeMaker{Name: "Karmada, pull", New: func(dir string) Edge { return newKarmadaEdge(dir, true) }}
}

type karmadaEdge struct {
	pull     bool
	hub      realCluster // its agent is Karmada's control plane
	clusters realClusters
}

func newKarmadaEdge(dir string, pull bool) *karmadaEdge {
	return &karmadaEdge{pull: pull, hub: realCluster{dir: filepath.Join(dir, "hub")}, clusters: realClusters{dir: dir}}
}

func (e *karmadaEdge) Prepare(ctx context.Context, s world.Spec, _ time.Duration) error {
	if err := e.hub.start(ctx); err != nil {
		return err
	}
	k, err := karmada.Start(ctx, e.hub.cluster)
	if err != nil {
		return err
	}
	e.hub.agent = k
	err = e.clusters.start(ctx, s.Clusters, func(ctx context.Context, i int, c *cluster.Cluster) (agent, error) {
		if !e.pull {
			return nil, k.Join(ctx, world.Cluster(i), c)
		}
		a, err := k.StartAgent(ctx, world.Cluster(i), c)
		if err != nil {
			return nil, err
		}
		return a, nil
	})
	if err != nil {
		return err
	}
	return e.hub.cluster.Apply(ctx, policies(s))
}

// policies are a PropagationPolicy for each app.
func policies(s world.Spec) string {
	var members []string
	for i := range s.Clusters {
		members = append(members, world.Cluster(i))
	}
	var out strings.Builder
	for a := range s.Apps {
		fmt.Fprintf(&out, "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: %s, namespace: default}\nspec:\n  resourceSelectors:\n", world.App(a))
		for r := range s.Resources {
			fmt.Fprintf(&out, "  - {apiVersion: v1, kind: ConfigMap, name: %s-%s}\n", world.App(a), world.Resource(r))
		}
		fmt.Fprintf(&out, "  placement: {clusterAffinity: {clusterNames: [%s]}}\n", strings.Join(members, ", "))
	}
	return out.String()
}

func (e *karmadaEdge) Converge(ctx context.Context, t Turn) (time.Duration, error) {
	for _, pair := range t.Pairs {
		if pair.Cluster != world.Cluster(0) {
			continue // the others have the same objects
		}
		for _, file := range slices.Sorted(maps.Keys(pair.Files)) {
			name := pair.App + "-" + strings.TrimSuffix(file, ".yaml")
			if err := e.hub.apply(ctx, name, pair.Files[file]); err != nil {
				return 0, err
			}
		}
	}
	return e.clusters.live(ctx, t.World, time.Now())
}

func (e *karmadaEdge) Processes() Processes {
	return Processes{Control: e.hub.control(), Clusters: e.clusters.agents()}
}

func (e *karmadaEdge) Close(context.Context) error {
	e.clusters.stop()
	e.hub.stop()
	return nil
}
