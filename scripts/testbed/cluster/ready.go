package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/internal/poll"
)

// ready creates the nodes and waits until the cluster accepts work.
func (c *Cluster) ready(ctx context.Context) error {
	for i := range c.nodes {
		if err := c.client.Post(ctx, "/api/v1/nodes", node(c.name, i)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := poll.Until(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		if c.Check() != nil {
			cancel()
		}
		return c.takesWork(ctx)
	})
	if dead := c.Check(); dead != nil {
		return dead
	}
	if err != nil {
		return fmt.Errorf("%w; see the logs in %s", err, c.dir)
	}
	return nil
}

func (c *Cluster) takesWork(ctx context.Context) error {
	if c.bare {
		return c.client.Get(ctx, "/api/v1/namespaces/default", nil)
	}
	if err := c.client.Get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil); err != nil {
		return err
	}
	var list nodeList
	if err := c.client.Get(ctx, "/api/v1/nodes", &list); err != nil {
		return err
	}
	if n := list.ready(); n < c.nodes {
		return fmt.Errorf("%d of %d nodes are ready", n, c.nodes)
	}
	return nil
}

type nodeList struct {
	Items []struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
}

func (l nodeList) ready() (n int) {
	for _, item := range l.Items {
		for _, c := range item.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				n++
			}
		}
	}
	return n
}

func node(cluster string, i int) map[string]any {
	name := fmt.Sprintf("%s-node-%d", cluster, i)
	room := map[string]string{"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"}
	return map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{
			"name": name,
			"labels": map[string]string{
				"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
				"type": "kwok",
			},
		},
		"status": map[string]any{"allocatable": room, "capacity": room},
	}
}
