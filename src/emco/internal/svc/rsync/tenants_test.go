package rsync

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

func TestABranchIsEmptyWhenItsLastTargetLeaves(t *testing.T) {
	t.Parallel()
	n := newTenants()
	main, side := route.Branch{URL: "r", Name: "main"}, route.Branch{URL: "r", Name: "side"}
	one, two := pair.Target{Cluster: "c1", UID: "7"}, pair.Target{Cluster: "c2", UID: "7"}
	n.enter(one, main)
	n.enter(one, main)
	n.enter(two, main)
	leaves := func(t2 pair.Target, at route.Branch, want bool) {
		t.Helper()
		if b, empty := n.leave(t2); empty != want || want && b != at {
			t.Errorf("%v leaves %v, empty %v; want %v, %v", t2, b, empty, at, want)
		}
	}
	leaves(one, main, false)
	leaves(one, main, false)
	n.enter(two, side) // the cluster pulls from elsewhere now
	leaves(two, side, true)
	if len(n.on) > 0 || len(n.at) > 0 {
		t.Errorf("%v, %v are left", n.on, n.at)
	}
}
