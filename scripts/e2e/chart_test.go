package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// A real API server takes the control plane's manifests without a warning, and admits its pods to a
// namespace with restricted pod security: one pod with a volume, and several pods.
func TestControlPlaneChart(t *testing.T) {
	c := clustersOf(t).c1
	for file, want := range map[string]struct {
		objects, pods int
		selector      string // of the pods
	}{"emco.yaml": {7, 1, "!app.kubernetes.io/component"}, "services.yaml": {8, 3, "app.kubernetes.io/component=all"}} {
		manifest := filepath.Join("..", "..", "deployments", "emco", file)
		t.Cleanup(func() { // the test's context has ended
			if out, err := c.Kubectl(context.WithoutCancel(t.Context()), "delete", "--wait=false", "--ignore-not-found", "-f", manifest); err != nil {
				t.Error(out, err)
			}
		})
		out := kubectl(t, c, "apply", "--server-side", "--validate=strict", "--warnings-as-errors", "-f", manifest)
		if strings.Count(out, "serverside-applied") != want.objects {
			t.Errorf("%s: kubectl apply printed\n%s\nwant %d objects", file, out, want.objects)
		}
		var pods struct {
			Items []struct{ Spec map[string]json.RawMessage }
		}
		eventually(t, "the pods of "+file, func() error { // their controller made them, so they were admitted
			if err := json.Unmarshal([]byte(kubectl(t, c, "-n", "emco", "get", "pods", "-l", want.selector, "-o", "json")), &pods); err != nil {
				return err
			}
			if len(pods.Items) != want.pods {
				return fmt.Errorf("%d pods, want %d", len(pods.Items), want.pods)
			}
			return nil
		})
		for key, bad := range map[string]string{"hostNetwork": "true", "securityContext": "{}"} { // the rules are in force
			spec := maps.Clone(pods.Items[0].Spec)
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
