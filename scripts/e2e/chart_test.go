package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

// A real API server takes the control plane's manifests without a warning, and admits its pods to a
// namespace with restricted pod security: one pod with a volume, several pods, and pods of single services.
func TestControlPlaneChart(t *testing.T) {
	const deployments, parts = "deployments/emco", "src/emco/internal/render/helm/testdata/controlplane-parts.yaml"
	c := clustersOf(t).c1
	for file, want := range map[string]struct {
		objects int
		pods    map[string]int // by a selector
	}{
		filepath.Join(deployments, "emco.yaml"):     {7, map[string]int{"!app.kubernetes.io/component": 1}},
		filepath.Join(deployments, "services.yaml"): {8, map[string]int{"app.kubernetes.io/instance=emco,app.kubernetes.io/component=all": 3}},
		parts: {13, map[string]int{
			"app.kubernetes.io/instance=parts,app.kubernetes.io/component=all": 2, "app.kubernetes.io/component=orchestrator": 1, "app.kubernetes.io/component=rsync": 2,
		}},
	} {
		manifest := local("..", "..", file)
		t.Cleanup(func() { // the test's context has ended
			if out, err := c.Kubectl(context.WithoutCancel(t.Context()), "delete", "--wait=false", "--ignore-not-found", "-f", manifest); err != nil {
				t.Error(out, err)
			}
		})
		out := kubectl(t, c, "apply", "--server-side", "--validate=strict", "--warnings-as-errors", "-f", manifest)
		if strings.Count(out, "serverside-applied") != want.objects {
			t.Errorf("%s: kubectl apply printed\n%s\nwant %d objects", file, out, want.objects)
		}
		for selector, number := range want.pods {
			spec := admitted(t, c, selector, number)
			for key, bad := range map[string]string{"hostNetwork": "true", "securityContext": "{}"} { // the rules are in force
				spec := maps.Clone(spec)
				spec[key] = json.RawMessage(bad)
				text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]string{"name": "other", "namespace": "emco"}, "spec": spec})
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Apply(t.Context(), string(text)); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
					t.Errorf("%s: a pod with %s %s: %v, want that pod security refuses it", file, key, bad, err)
				}
			}
		}
	}
}

// admitted waits for so many pods, which their controller made, so they were admitted. It returns the spec of one.
func admitted(t *testing.T, c *cluster.Cluster, selector string, number int) map[string]json.RawMessage {
	t.Helper()
	var pods struct {
		Items []struct{ Spec map[string]json.RawMessage }
	}
	eventually(t, "the pods of "+selector, func() error {
		if err := json.Unmarshal([]byte(kubectl(t, c, "-n", "emco", "get", "pods", "-l", selector, "-o", "json")), &pods); err != nil {
			return err
		}
		if len(pods.Items) != number {
			return fmt.Errorf("%d pods, want %d", len(pods.Items), number)
		}
		return nil
	})
	return pods.Items[0].Spec
}
