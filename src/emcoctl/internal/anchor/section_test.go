package anchor_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
)

const dig = "projects/p/composite-apps/a/v1/deployment-intent-groups/d"

// TestSectionOf has every row of upstream's table, in its order.
func TestSectionOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path string
		want anchor.Section
	}{
		{"cluster-providers/p/clusters/c/networks", anchor.Ncm},
		{"cluster-providers/p/clusters/c/provider-networks", anchor.Ncm},
		{"cluster-providers/p/clusters/c/provider-networks/n", anchor.Ncm},
		{"cluster-providers/p/clusters/c/apply", anchor.Ncm},
		{"cluster-providers/p/clusters/c/terminate", anchor.Ncm},
		{"cluster-providers/p/clusters/c/stop", anchor.Ncm},
		{"cluster-providers/p/clusters/c/status", anchor.Ncm},
		{"cluster-providers/p/clusters/c/status?type=rsync", anchor.Ncm},
		{"cluster-providers/p/ca-certs", anchor.CaCert},
		{"cluster-providers/p/ca-certs/x/clusters", anchor.CaCert},
		{"cluster-providers", anchor.Clm},
		{"cluster-providers/p/clusters", anchor.Clm},
		{"cluster-providers/p/clusters/c/labels", anchor.Clm},
		{"cluster-providers/p/clusters/c/kv-pairs", anchor.Clm},
		{"cluster-providers/p/cluster-sync-objects", anchor.Clm},
		{"clm-controllers", anchor.Clm},
		{"controllers", anchor.Orchestrator},
		{"dtc-controllers", anchor.Dtc},
		{"projects/p/logical-clouds", anchor.Dcm},
		{"projects/p/logical-clouds/l/instantiate", anchor.Dcm},
		{"projects/p/ca-certs", anchor.CaCert},
		{"projects/p/policy", anchor.Policy},
		{dig + "/network-chains", anchor.Sfc},
		{dig + "/sfc-clients", anchor.SfcClient},
		{dig + "/network-controller-intent", anchor.OvnAction},
		{dig + "/network-controller-intent/i/workload-intents", anchor.OvnAction},
		{dig + "/traffic-group-intents", anchor.Dtc},
		{dig + "/generic-k8s-intents", anchor.Gac},
		{dig + "/generic-k8s-intents/g/resources/r/customizations", anchor.Gac},
		{dig + "/hpa-intents", anchor.HpaPlacement},
		{dig + "/temporal-workflow-intents", anchor.WorkflowMgr},
		{dig + "/temporal-action-controller", anchor.Tac},
		{dig + "/policy-intents", anchor.Policy},
		{"projects", anchor.Orchestrator},
		{"projects/p/composite-apps", anchor.Orchestrator},
		{dig + "/generic-placement-intents", anchor.Orchestrator},
		{dig + "/status?status=deployed", anchor.Orchestrator},
		{"policy/agents", anchor.Policy}, // refused by upstream's client, of use all the same
	} {
		if got, err := anchor.SectionOf(tt.path); got != tt.want || err != nil {
			t.Errorf("SectionOf(%s) = %q, %v; want %q", tt.path, got, err, tt.want)
		}
	}
	for _, path := range []string{"", "/projects", "project", "v2/projects", "clusters"} {
		_, err := anchor.SectionOf(path)
		if !errs.Is(err, errs.Invalid) || !strings.HasPrefix(err.Error(), "Invalid baseUrl: "+path) {
			t.Errorf("SectionOf(%q): %v, want Invalid with upstream's words", path, err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for path, ok := range map[string]bool{
		"projects/p.1": true, "projects/a/status?cluster=p%2Bc": true, "projects/..": false,
		"projects/./x": false, "projects/a b": false, "projects/a\nb": false, "projects#x": false,
	} {
		if err := anchor.Check(path); (err == nil) != ok {
			t.Errorf("Check(%q) = %v, want ok %v", path, err, ok)
		}
	}
}
