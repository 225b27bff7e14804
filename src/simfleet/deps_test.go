package main

import (
	"os/exec"
	"strings"
	"testing"
)

// forbidden lists what the simulator must not link: a simulated cluster has no API server,
// and the parts of the monitor that need one must not come with its reports.
var forbidden = []string{
	"k8s.io", "github.com/fluxcd", "go.etcd.io", "go.mongodb.org", "helm.sh",
	"github.com/emco-orchestrator/emco/src/emco", "github.com/emco-orchestrator/emco/src/kubehealth", "github.com/emco-orchestrator/emco/src/monitor/internal",
}

func TestWhatIsNotLinked(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 100 {
		t.Fatalf("go list names only %d packages", len(packages))
	}
	for _, p := range packages {
		for _, name := range forbidden {
			if p == name || strings.HasPrefix(p, name+"/") {
				t.Errorf("%s is linked", p)
			}
		}
	}
}
