package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A real API server takes the control plane's manifests without a warning, and admits its pod to a
// namespace with restricted pod security.
func TestControlPlaneChart(t *testing.T) {
	c := clustersOf(t).c1
	manifest, err := os.ReadFile(filepath.Join("..", "..", "deployments", "emco", "emco.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kubectl := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), c.KubectlPath(), args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "KUBERC=off")
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	out := kubectl(string(manifest), "apply", "--server-side", "--validate=strict", "-f", "-")
	if strings.Contains(out, "Warning") || strings.Count(out, "serverside-applied") != 7 {
		t.Errorf("kubectl apply printed\n%s\nwant seven objects and no warning", out)
	}
	kubectl("", "-n", "emco", "wait", "--for=create", "--timeout=60s", "pod/emco-0") // the StatefulSet's, so it was admitted
	var pod struct{ Spec map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(kubectl("", "-n", "emco", "get", "pod", "emco-0", "-o", "json")), &pod); err != nil {
		t.Fatal(err)
	}
	for key, bad := range map[string]string{"hostNetwork": "true", "securityContext": "{}"} { // the rules are in force
		spec := maps.Clone(pod.Spec)
		spec[key] = json.RawMessage(bad)
		text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]string{"name": "other", "namespace": "emco"}, "spec": spec})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(t.Context(), string(text)); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
			t.Errorf("a pod with %s %s: %v, want that pod security refuses it", key, bad, err)
		}
	}
	kubectl(string(manifest), "delete", "--wait=false", "-f", "-")
}
