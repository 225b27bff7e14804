package e2e

import (
	"fmt"
	"testing"
)

// TestUpdateAndRollback moves an app away from the direct cluster and back. Unchanged objects stay
// untouched on both clusters.
func TestUpdateAndRollback(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters, three apps")
	l, s := clustersOf(t), newStage(t)
	l.follow(s)
	values := loopValues(s, l)
	s.apply(values, loopFiles("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml", loopStart)...)
	s.wait(group, "instantiated")
	available(t, l.c1, "r1-web")
	available(t, l.c2, "r1-web")
	available(t, l.c2, "r1-telemetry")
	on2 := identities(t, l.c2)
	cache := kubectl(t, l.c1, "get", "deployment", "r1-cache", "-o", "jsonpath={.metadata.uid} {.metadata.generation}")

	do.next("web leaves c1")
	s.apply(values, loopFiles("04-update.yaml")...)
	s.wait(group, "instantiated")
	eventually(t, "web is gone from c1", func() error {
		if left := kubectl(t, l.c1, "get", "deployment,service,configmap", "-l", "app.kubernetes.io/name=web", "-o", "name"); left != "" {
			return fmt.Errorf("there is %s", left)
		}
		return nil
	})

	do.next("back to revision 1")
	s.apply(values, loopFiles("05-rollback.yaml")...)
	s.wait(group, "instantiated")
	available(t, l.c1, "r1-web")
	if now := identities(t, l.c2); now != on2 {
		t.Errorf("objects on c2 changed:\n%s\nbefore:\n%s", now, on2)
	}
	if now := kubectl(t, l.c1, "get", "deployment", "r1-cache", "-o", "jsonpath={.metadata.uid} {.metadata.generation}"); now != cache {
		t.Errorf("cache on c1 changed: %s, before %s", now, cache)
	}

	do.next("terminate")
	s.terminate(group, l.c1, l.c2)
	s.sound()
	do.next("done")
}
