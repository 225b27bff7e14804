package main

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

// forbidden lists what the simulator must not link: a simulated cluster has no API server,
// and the parts of the monitor that need one must not come with its reports.
var forbidden = []string{
	"k8s.io", "github.com/fluxcd", "go.etcd.io", "go.mongodb.org", "helm.sh",
	"github.com/emco-orchestrator/emco/src/emco", "github.com/emco-orchestrator/emco/src/kubehealth", "github.com/emco-orchestrator/emco/src/monitor/internal",
}

func TestWhatIsNotLinked(t *testing.T) {
	t.Parallel()
	archtest.CheckLinked(t, ".", 50, func(pkg string) string {
		if archtest.Below(pkg, forbidden) {
			return "a simulated cluster needs no such part"
		}
		return ""
	})
}
