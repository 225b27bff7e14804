package e2e

import (
	"encoding/json"
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
	var set struct {
		Spec struct {
			Template struct {
				Spec map[string]json.RawMessage
			}
			VolumeClaimTemplates []struct{ Metadata struct{ Name string } }
		}
	}
	if err := json.Unmarshal([]byte(kubectl("", "-n", "emco", "get", "statefulset", "emco", "-o", "json")), &set); err != nil {
		t.Fatal(err)
	}
	spec := set.Spec.Template.Spec
	var volumes []json.RawMessage
	if err := json.Unmarshal(spec["volumes"], &volumes); err != nil || len(set.Spec.VolumeClaimTemplates) != 1 {
		t.Fatalf("%v, %d claims", err, len(set.Spec.VolumeClaimTemplates))
	}
	volumes = append(volumes, json.RawMessage(`{"name":"data","persistentVolumeClaim":{"claimName":"data-emco-0"}}`))
	if spec["volumes"], err = json.Marshal(volumes); err != nil {
		t.Fatal(err)
	}
	pod, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]string{"name": "emco-0", "namespace": "emco"}, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	if out := kubectl(string(pod), "create", "--dry-run=server", "--validate=strict", "-f", "-"); strings.Contains(out, "Warning") {
		t.Errorf("the pod is admitted with a warning: %s", out)
	}
	for key, bad := range map[string]string{"hostNetwork": "true", "hostPID": "true"} { // the rules are in force
		spec[key] = json.RawMessage(bad)
		pod, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]string{"name": "emco-1", "namespace": "emco"}, "spec": spec})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(t.Context(), string(pod)); err == nil || !strings.Contains(err.Error(), "restricted") {
			t.Errorf("a pod with %s: %v, want that restricted pod security refuses it", key, err)
		}
		delete(spec, key)
	}
	kubectl(string(manifest), "delete", "--wait=false", "-f", "-")
}
