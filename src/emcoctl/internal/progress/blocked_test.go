package progress_test

import (
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/progress"
)

// The line that wait prints names what the first app on a cluster waits for.
func TestF43WhatIsBlockedIsNamed(t *testing.T) {
	t.Parallel()
	s := v2.Status{DeployedStatus: v2.StatusInstantiating, Apps: []v2.AppStatus{{Name: "web", Clusters: []v2.ClusterStatus{
		{Provider: "edge", Cluster: "a", Phase: "Applied"},
		{Provider: "edge", Cluster: "b", Phase: "Pending", Blocked: "waits for pre-install hook Job job-x: not reported yet; the cluster has never reported"},
		{Provider: "edge", Cluster: "c", Phase: "Pending", Blocked: "the same"},
	}}}}
	want := "Instantiating; clusters: Applied 1, Pending 2; web on edge+b is blocked: waits for pre-install hook Job job-x: not reported yet; the cluster has never reported (and 1 more)"
	if got := progress.Summary(s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
