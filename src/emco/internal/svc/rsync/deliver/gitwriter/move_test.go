package gitwriter_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// A cluster that moves to another directory of its branch finds the old one until that is cleared: its reconciler would remove
// what vanishes from the directory that it reads.
func TestTheOldDirectoryStaysUntilItIsCleared(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	byBranch, _ := f.due("one", 0, 1, 10)
	old := syncobjects.Settings{Repo: f.settings.Repo, Branch: "main"}
	moved := old
	moved.FanOut = true
	for _, due := range byBranch {
		from := route.Route{Backend: f.backend, Settings: &old}
		f.writer.Deliver(t.Context(), due, map[pair.Target]route.Route{due[0]: from}, func(results []pair.Result) {
			if results[0].Err != nil {
				t.Fatal(results[0].Err)
			}
		}, always)
		to := route.Route{Backend: f.backend, Settings: &moved, Move: &route.Move{From: from, Cluster: due[0].Cluster}}
		before, after := from.Target(due[0].Cluster, "7").Dir()+"/", to.Target(due[0].Cluster, "7").Dir()+"/"
		files := func() (old, now int) {
			tree := f.git("ls-tree", "-r", "--name-only", "main") + "\n"
			return strings.Count(tree, before), strings.Count(tree, after)
		}
		if _, err := f.writer.Carry(t.Context(), due, to); err != nil {
			t.Fatal(err)
		}
		if old, now := files(); old == 0 || now == 0 {
			t.Errorf("after the first commit the old directory has %d files and the new one %d, want some in both", old, now)
		}
		if _, err := f.writer.Clear(t.Context(), due, to); err != nil {
			t.Fatal(err)
		}
		if old, now := files(); old != 0 || now == 0 {
			t.Errorf("in the end the old directory has %d files and the new one %d, want none in the old one", old, now)
		}
	}
}
