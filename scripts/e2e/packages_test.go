package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestPackagesOnARealCluster runs the tests of the packages that talk to a cluster, which
// skip themselves when they are given none.
func TestPackagesOnARealCluster(t *testing.T) {
	l := clustersOf(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./internal/sink/kube", "./internal/status/kubewatch")
	cmd.Dir = "../../src/emco"
	cmd.Env = append(os.Environ(), "EMCO_TEST_KUBECONFIG="+l.c1.Kubeconfig(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Errorf("tests were skipped although there is a cluster:\n%s", out)
	}
	t.Logf("%d tests passed", strings.Count(string(out), "--- PASS"))
}
