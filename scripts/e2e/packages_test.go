package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The release of Argo CD whose schemas EMCO's objects must pass, and the checksum of its sources.
const (
	argoCD    = "github.com/argoproj/argo-cd/v3@v3.1.16"
	argoCDSum = "h1:ufzj0c7CWKoMW03lOV8F6jwIW6YDPPZWI4PTHxz8Qq0="
)

// argoCDDefinitions returns the folder of Argo CD's definitions. It builds nothing.
func argoCDDefinitions(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", argoCD)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("download %s: %v\n%s", argoCD, err, out)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil || module.Sum != argoCDSum {
		t.Fatalf("the sources of %s have the sum %q, want %q (%v)", argoCD, module.Sum, argoCDSum, err)
	}
	return filepath.Join(module.Dir, "manifests", "crds")
}

// TestPackagesOnARealCluster runs the tests of the packages that need a cluster, and skip without one.
func TestPackagesOnARealCluster(t *testing.T) {
	l := clustersOf(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./internal/sink/kube", "./internal/status/kubewatch", "./internal/syncer/all")
	cmd.Dir = "../../src/emco"
	cmd.Env = append(os.Environ(), "EMCO_TEST_KUBECONFIG="+l.c1.Kubeconfig(), "EMCO_TEST_ARGOCD_CRDS="+argoCDDefinitions(t), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Errorf("tests were skipped although there is a cluster:\n%s", out)
	}
	t.Logf("%d tests passed", strings.Count(string(out), "--- PASS"))
}
