// Package ocm runs a hub of Open Cluster Management against a cluster of a bed, and lets other clusters join it.
//
//	placements, ManifestWorkReplicaSets ──> kube-apiserver
//	                                          ▲       ▲
//	                             ocm-placement     ocm-work-manager: a ManifestWork for each cluster
//	                                          └─────── ocm-work-agent of a cluster
//
// Clusters are registered by hand: neither the registration controller of the hub nor the registration agents run, which
// renew credentials and leases.
package ocm

import (
	"context"
	"encoding/json"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/addon"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/probe"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// Namespace contains the hub's own objects, and in clusters those of the agent.
const Namespace = "open-cluster-management"

// Placement is the name of a placement in namespace default that selects all clusters.
const Placement = "all"

const part = "ocm"

// Hub is the running controllers.
type Hub struct{ *addon.Addon }

// Start builds what is missing, installs the CRDs and the placement of all clusters, starts the controllers and waits until they
// serve. The caller stops the hub before its cluster. When Start fails nothing is left running.
func Start(ctx context.Context, c *cluster.Cluster) (*Hub, error) {
	a, err := addon.Start(ctx, c, part, func(ctx context.Context, a *addon.Addon) error {
		if err := a.Define(ctx, "crds.yaml"); err != nil {
			return err
		}
		if err := c.Apply(ctx, namespace+hubObjects); err != nil {
			return err
		}
		for _, name := range []string{"ocm-placement", "ocm-work-manager"} {
			if err := run(ctx, a, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Hub{a}, nil
}

const namespace = `apiVersion: v1
kind: Namespace
metadata: {name: ` + Namespace + `}
`

const hubObjects = `---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: fleet}
spec: {clusterSelector: {selectorType: ExclusiveClusterSetLabel}}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: fleet, namespace: default}
spec: {clusterSet: fleet}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: ` + Placement + `, namespace: default}
spec: {clusterSets: [fleet]}
`

// Agent is the running agent of a cluster.
type Agent struct{ *addon.Addon }

// Join registers a cluster under a name, and starts its agent. The caller stops the agent before its cluster. When Join fails nothing
// is left running.
func (h *Hub) Join(ctx context.Context, name string, c *cluster.Cluster) (*Agent, error) {
	text, err := json.Marshal(registration(name))
	if err != nil {
		return nil, err
	}
	if err := h.Cluster().Apply(ctx, string(text)); err != nil {
		return nil, err
	}
	a, err := addon.Start(ctx, c, part, func(ctx context.Context, a *addon.Addon) error {
		if err := a.Define(ctx, "agent-crds.yaml"); err != nil {
			return err
		}
		if err := c.Apply(ctx, namespace); err != nil {
			return err
		}
		return run(ctx, a, "ocm-work-agent", "--spoke-cluster-name="+name, "--agent-id="+name, "--workload-source-driver=kube", "--workload-source-config="+h.Cluster().Kubeconfig())
	})
	if err != nil {
		return nil, err
	}
	return &Agent{a}, nil
}

type jsonObject map[string]any

// registration returns the objects of a cluster in the hub, as a list: the cluster, which the hub has accepted, and the namespace
// of its ManifestWorks.
func registration(name string) jsonObject {
	entry := jsonObject{
		"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
		"metadata": jsonObject{"name": name, "labels": jsonObject{"cluster.open-cluster-management.io/clusterset": "fleet"}},
		"spec":     jsonObject{"hubAcceptsClient": true},
	}
	space := jsonObject{"apiVersion": "v1", "kind": "Namespace", "metadata": jsonObject{"name": name}}
	return jsonObject{"apiVersion": "v1", "kind": "List", "items": []jsonObject{space, entry}}
}

// run starts a program for the cluster of an add-on, as its own leader, and waits until it serves.
func run(ctx context.Context, a *addon.Addon, name string, args ...string) error {
	return process.Retry(func() error {
		ports, err := port.Pick(1)
		if err != nil {
			return err
		}
		address := port.Address(ports[0])
		return a.Run(ctx, addon.Program{
			Name:  name,
			Args:  append([]string{"--kubeconfig=" + a.Cluster().Kubeconfig(), "--namespace=" + Namespace, "--disable-leader-election", "--listen=" + address}, args...),
			Ready: func(ctx context.Context) error { return probe.TCP(ctx, address) },
		})
	})
}
