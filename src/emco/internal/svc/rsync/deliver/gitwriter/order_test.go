package gitwriter_test

import (
	"fmt"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// If not all targets fit into a commit, rollbacks and removals are in the first.
func TestRollbacksAreInTheFirstCommit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bundles.put("one", "one")
	for i := range 1200 {
		p := appcontext.Pair{Desired: "one"}
		if i == 1199 {
			p.Change = appcontext.RollBack
		}
		f.pair(v2.ClusterKey(fmt.Sprintf("edge+c%04d", i)), "web", p)
	}
	f.deliver()
	if len(f.committer.jobs) != 2 {
		t.Fatalf("%d commits, want 2", len(f.committer.jobs))
	}
	for i, job := range f.committer.jobs {
		found := false
		for _, e := range job.Edits {
			found = found || strings.Contains(e.Path, "edge+c1199/")
		}
		if found != (i == 0) {
			t.Errorf("commit %d has the rollback: %t", i, found)
		}
	}
}
