package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
)

// boards is an extended resource that one node of one cluster has.
const boards = "example.org/board"

// boardNeeds are the needs of two pods with two boards each.
const boardNeeds = `version: emco/v2
resourceContext: {anchor: GROUP/hpa-intents}
metadata: {name: boards}
spec: {app: roomy}
---
version: emco/v2
resourceContext: {anchor: GROUP/hpa-intents/boards/hpa-resource-consumers}
metadata: {name: pods}
spec: {apiVersion: apps/v1, kind: Deployment, name: roomy-pods, replicas: 2, container: main}
---
version: emco/v2
resourceContext: {anchor: GROUP/hpa-intents/boards/hpa-resource-consumers/pods/resource-requirements}
metadata: {name: boards}
spec: {allocatable: true, mandatory: true, resource: {name: example.org/board, requests: 2, limits: 2}}
---
version: emco/v2
resourceContext: {anchor: GROUP/intents}
metadata: {name: boards}
spec: {intent: {hpa: boards}}
`

// An app goes to the cluster whose nodes have room: emco reads the nodes of the direct cluster, and the monitor of the other one
// reports them, as soon as it may. The app stays when its own pods have taken the room.
func TestMonitorReportsRoomForPlacement(t *testing.T) {
	do := steps{TB: t}
	do.next("a node of c2 has four boards; its monitor may not read nodes yet")
	l, s := clustersOf(t), newWatched(t)
	l.follow(s.testStage)
	node := strings.Fields(kubectl(t, l.c2, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))[0]
	has := func(n string) error {
		_, err := l.c2.Kubectl(context.WithoutCancel(t.Context()), "patch", "node", node, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"allocatable":{%q:%s},"capacity":{%q:%s}}}`, boards, n, boards, n))
		return err
	}
	s.must("add boards", has(`"4"`))
	t.Cleanup(func() { s.must("remove boards", has("null")) })
	m := s.launch(l.c2, s.account(l.c2), "GIT_URL="+s.git.URL(repoName), "GIT_USERNAME="+edge, "GIT_TOKEN="+s.edgeToken, "CAPACITY_INTERVAL=1s")
	s.apply(loopValues(s.testStage, l), loopFiles("00-clusters.yaml", "01-app.yaml")...)
	d := fleet.Deployment{Name: "roomy", Apps: []fleet.App{{
		Chart: fleet.Synthetic("roomy", 2).With("templates/pods.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: roomy-pods}\nspec: {replicas: 2, selector: {matchLabels: {app: roomy}}, template: {metadata: {labels: {app: roomy}}, spec: {containers: [{name: main, image: i}]}}}\n"),
		Intent: v2.PlacementSelection{AnyOf: []v2.Selector{
			{Provider: fleet.Provider, Cluster: "c1"}, {Provider: fleet.Provider, Cluster: "c2"},
		}},
	}}}
	s.must("onboard", s.fleet().Onboard(t.Context(), s.dir, d))
	needs := filepath.Join(s.dir, "needs.yaml")
	s.must("write the needs", os.WriteFile(needs, []byte(strings.ReplaceAll(boardNeeds, "GROUP", d.Path())), 0o600))
	s.ctl("apply", "-f", needs)
	reason := func(parts ...string) {
		t.Helper()
		eventually(t, "the reason of the placement", func() error {
			r := s.emco.Emcoctl(t.Context(), "placement", d.Path())
			for _, p := range parts {
				if !strings.Contains(r.Out+r.Err, p) {
					return fmt.Errorf("it lacks %q:\n%s%s", p, r.Out, r.Err)
				}
			}
			return nil
		})
	}
	const short = "none of 2 nodes has 2 " + boards + " free, with room for 0 of the 2 pods of roomy-pods"
	reason(short, "it is not known what is free: nodes and pods may not be listed")

	do.next("the monitor may read nodes")
	s.must("grant the right", l.c2.Apply(t.Context(), `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: emco-monitor-nodes}
rules: [{apiGroups: [""], resources: [nodes], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: emco-monitor-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: emco-monitor-nodes}
subjects: [{kind: ServiceAccount, name: emco-monitor, namespace: emco-monitor}]
`))
	t.Cleanup(func() {
		_, err := l.c2.Kubectl(context.WithoutCancel(t.Context()), "delete", "clusterrole,clusterrolebinding", "emco-monitor-nodes", "--ignore-not-found")
		s.must("revoke the right", err)
	})
	reason(short, "the first admitted of 2 by name")
	s.must("instantiate", s.fleet().Act(t.Context(), d.Path(), "instantiate"))
	s.wait(d.Path(), "instantiated")
	eventually(t, "pods with boards", func() error {
		out := kubectl(t, l.c2, "get", "pods", "-A", "-l", "app=roomy", "-o", `jsonpath={range .items[*]}{.spec.nodeName}={.spec.containers[0].resources.requests} {end}`)
		if want := node + `={"` + boards + `":"2"}`; strings.Count(out, want) != 2 {
			return fmt.Errorf("pods are %q, want two of %q", out, want)
		}
		return nil
	})

	do.next("the node is full, and the app stays")
	eventually(t, "a report without free boards", func() error {
		r, err := s.lastReport(l.c2)
		if err != nil {
			return err
		}
		for _, c := range r.Capacity.Classes {
			for _, have := range c.Resources {
				if have.Name == boards && have.Allocatable == 4 && have.Free == 0 {
					return nil
				}
			}
		}
		text, err := json.Marshal(r.Capacity)
		return errors.Join(err, fmt.Errorf("the report says %s", text))
	})
	reason(short, "the first admitted of 2 by name")
	s.must("update", s.fleet().Act(t.Context(), d.Path(), "update"))
	s.wait(d.Path(), "instantiated")
	for _, app := range s.ready(d).Apps {
		for _, c := range app.Clusters {
			if c.Cluster != "c2" {
				t.Errorf("%s went to %s", app.Name, c.Cluster)
			}
		}
	}

	do.next("terminate")
	s.must("terminate", s.fleet().Act(t.Context(), d.Path(), "terminate"))
	s.wait(d.Path(), "terminated")
	empty(t, l.c2)
	s.stop(m)
	do.next("done")
}
