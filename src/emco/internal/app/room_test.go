package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
)

// nodeOf puts a node on a cluster.
func (s *testStage) nodeOf(cluster *kubetest.Server, name, cpu string) {
	s.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(cluster.Kubeconfig())
	s.must("read the kubeconfig", err)
	api, err := dynamic.NewForConfig(config)
	s.must("reach the cluster", err)
	node := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name},
		"status": map[string]any{"allocatable": map[string]any{"cpu": cpu}, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}}
	_, err = api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}).Create(s.Context(), node, metav1.CreateOptions{})
	s.must("make a node", err)
}

// sayCPU reports nodes with this many thousandths of cpu free.
func (a *clusterAgent) sayCPU(nodes int, free uint64) {
	a.Helper()
	r := a.sees(status.Current)
	r.Capacity = status.Capacity{Nodes: nodes, Classes: []status.NodeClass{{Count: nodes, Resources: []status.NodeResource{{Name: "cpu", Allocatable: 8000, Free: free}}}}}
	a.send(r)
}

// roomStage has an app that needs three pods with 4 cores each, on one of three clusters: a and b report through Git, d is
// direct.
func roomStage(t *testing.T) (*testStage, testGroup) {
	t.Helper()
	s := newStageWith(t, func(c *config.Config) { c.Status.Interval = config.Duration(time.Second) })
	api := kubetest.Start(t)
	s.must("let status be replaced", s.bare.Config(t.Context(), "receive.denyNonFastForwards", "false"))
	s.nodeOf(api, "n1", "8")
	s.nodeOf(api, "n2", "8")
	s.fleet("a", "b")
	if a := s.register("d", named("d"), string(api.Kubeconfig())); a.Status != http.StatusCreated {
		t.Fatalf("a direct cluster: %d %s", a.Status, a.Body)
	}
	s.expect(201, "POST", provider+"/clusters/d/labels", `{"clusterLabel":"all"}`)
	s.member("d")
	s.expect(202, "POST", cloud+"/update", "")
	s.onboard("web")
	g := testGroup{s, till + "/deployment-intent-groups/autumn"}
	s.expect(201, "POST", till+"/deployment-intent-groups", `{"metadata":{"name":"autumn"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	s.expect(201, "POST", g.path+"/generic-placement-intents", named("places"))
	s.expect(201, "POST", g.path+"/generic-placement-intents/places/app-intents",
		`{"metadata":{"name":"web"},"spec":{"app":"web","intent":{"anyOf":[{"clusterProvider":"edge","clusterLabel":"all"}]}}}`)
	s.expect(201, "POST", g.path+"/intents", `{"metadata":{"name":"all"},"spec":{"intent":{"genericPlacementIntent":"places","hpa-plc":"needs"}}}`)
	s.expect(201, "POST", g.path+"/hpa-intents", `{"metadata":{"name":"needs"},"spec":{"app":"web"}}`)
	s.expect(201, "POST", g.path+"/hpa-intents/needs/hpa-resource-consumers", `{"metadata":{"name":"web"},"spec":{"name":"r1-web","kind":"Deployment","apiVersion":"apps/v1","replicas":3,"container":"web"}}`)
	s.expect(201, "POST", g.path+"/hpa-intents/needs/hpa-resource-consumers/web/resource-requirements",
		`{"metadata":{"name":"cpu"},"spec":{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":4}}}`)
	g.act("approve")
	return s, g
}

// places returns the chosen clusters, and why the others were left out, by cluster.
func (g testGroup) places() (in []string, out map[string]string) {
	g.Helper()
	var answer v2.PlacementAnswer
	g.must("read the placement", json.Unmarshal([]byte(g.expect(200, "GET", g.path+"/placement?explain=true", "")), &answer))
	out = map[string]string{}
	for _, p := range answer.Placements {
		if p.Verdict == "in" {
			in = append(in, p.Cluster.Cluster())
		} else {
			out[p.Cluster.Cluster()] = p.Reason
		}
	}
	return in, out
}

// The free resources that monitors report through Git, and that API servers of direct clusters report, decide where an app
// goes. It stays there when its own pods use them up.
func TestAppsGoWhereNodesHaveRoom(t *testing.T) {
	t.Parallel()
	s, g := roomStage(t)
	if in, out := g.places(); !slices.Equal(in, []string{"d"}) || !strings.Contains(out["a"], "it is not known what is free: no monitor has reported") {
		t.Fatalf("without reports: %v, %v", in, out)
	}
	a, b := s.agent("a"), s.agent("b")
	a.sayCPU(2, 4000)
	b.sayCPU(3, 4000)
	s.eventually("the reports", func() string {
		in, out := g.places()
		const short = "2 of 2 nodes have 4 cpu free, with room for 2 of the 3 pods of r1-web (hpa)"
		if !slices.Equal(in, []string{"b"}) || out["a"] != short {
			return strings.Join(in, " ") + ", a: " + out["a"]
		}
		return ""
	})
	g.act("instantiate")
	g.becomes("Instantiated")
	if pair(g.query(""), "web", "b").Cluster != "b" {
		t.Errorf("the app is not on b: %+v", g.query(""))
	}
	b.sayCPU(3, 0) // the pods run
	a.sayCPU(1, 0)
	s.eventually("the next report", func() string {
		var m struct{ Capacity status.Capacity }
		s.must("read the monitor", json.Unmarshal([]byte(s.expect(200, "GET", provider+"/clusters/b/monitor", "")), &m))
		if len(m.Capacity.Classes) != 1 || m.Capacity.Classes[0].Resources[0].Free != 0 {
			return "not taken"
		}
		return ""
	})
	s.eventually("the view of b", func() string { // it follows what etcd holds
		var view v2.ClusterDetail
		s.must("read the view", json.Unmarshal([]byte(s.expect(200, "GET", "views/clusters/edge/b", "")), &view))
		if c := view.Capacity; c == nil || c.Nodes != 3 || c.Open != 3 || c.Reported.IsZero() || c.Changed.IsZero() || !slices.Equal(c.Resources, []v2.ResourceCapacity{{Name: "cpu", Free: "0", Allocatable: "24", Largest: "0"}}) {
			return fmt.Sprintf("it has %+v", c)
		}
		return ""
	})
	if in, out := g.places(); !slices.Equal(in, []string{"b"}) {
		t.Errorf("an app that runs on b goes to %v: %v", in, out)
	}
}
