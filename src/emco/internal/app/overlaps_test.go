package app_test

import (
	"slices"
	"testing"
)

// Two groups place one object on a cluster: the statuses of both name the other one, until one of them leaves the cluster.
func TestStatusesOfBothNameTheOtherDeployment(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	autumn := s.running("a", "b")
	winter := s.group("winter", appPlaces{"web": {"a"}})
	winter.act("instantiate")
	findings := func(g testGroup, cluster string, want ...string) {
		t.Helper()
		if got := pair(g.becomes("Instantiated"), "web", cluster).Findings; !slices.Equal(got, want) {
			t.Errorf("%s on %s has the findings %q, want %q", g.path, cluster, got, want)
		}
	}
	of := func(other testGroup) string {
		return "v1 ConfigMap default/r1-web is also placed by " + other.path + ", app web: they overwrite each other; rename one"
	}
	findings(winter, "a", of(autumn))
	findings(autumn, "a", of(winter))
	findings(autumn, "b")
	winter.act("terminate")
	winter.becomes("Terminated")
	findings(autumn, "a")
}
