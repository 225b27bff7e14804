package observe_test

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/monitor/internal/observe"
)

// awaitCapacity waits for a report of one node, with this many thousandths of cpu free.
func (c *testCluster) awaitCapacity(free uint64) {
	c.Helper()
	limit := time.After(time.Minute)
	for {
		got := c.observer.Report().Capacity
		if got.Nodes == 1 && len(got.Classes) == 1 && got.Classes[0].Resources[0].Free == free {
			return
		}
		select {
		case <-c.changes:
		case <-limit:
			c.Fatalf("capacity is %+v, want %d free", got, free)
		}
	}
}

func TestFreeResourcesAreReported(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, observe.Options{Capacity: 10 * time.Millisecond})
	c.create("nodes", "v1", "Node", "", "a", map[string]any{"status": map[string]any{
		"allocatable": map[string]any{"cpu": "4"}, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
	}})
	c.awaitCapacity(4000)
	c.create("pods", "v1", "Pod", "shop", "web", map[string]any{"spec": map[string]any{
		"nodeName": "a", "containers": []any{map[string]any{"name": "c", "resources": map[string]any{"requests": map[string]any{"cpu": "1"}}}},
	}})
	c.awaitCapacity(3000)
	if !c.observer.Settled() {
		t.Error("the observer is not settled after it has read the nodes")
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	if err := c.clients.Dynamic.Resource(pods).Namespace("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitCapacity(4000)
}

// Without the setting nothing is read and reported.
func TestFreeResourcesAreReportedOnlyOnDemand(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, observe.Options{})
	c.create("configmaps", "v1", "ConfigMap", "shop", "web", nil)
	if r := c.await("ConfigMap/web=Current", "Namespace/shop=Current"); !reflect.DeepEqual(r.Capacity, status.Capacity{}) {
		t.Errorf("capacity is %+v", r.Capacity)
	}
}
