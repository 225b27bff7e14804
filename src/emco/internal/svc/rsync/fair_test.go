package rsync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	deliver "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/gitwriter"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// While a large deployment is written in several commits, a small one on the same branch waits for the commit in
// progress, and not for the others.
func TestASmallChangeWaitsForOneCommitOfALargeOne(t *testing.T) {
	t.Parallel()
	const clusters = 3200 // four commits
	w := newWorks(t, 1)
	all := []v2.ClusterKey{"edge+c0"}
	for i := 1; i < clusters; i++ {
		name := fmt.Sprint("c", i)
		register(t, w.db, name, "r0")
		all = append(all, v2.NewClusterKey("edge", name))
	}
	var mu sync.Mutex
	var holds []string // the deployments in each commit
	begun, goOn := make(chan struct{}), make(chan struct{})
	p := w.process("one", func(c deliver.Committer) deliver.Committer {
		return commitsFunc(func(ctx context.Context, j batch.Job) (git.Hash, error) {
			mu.Lock()
			holds = append(holds, deploymentsIn(j))
			first := len(holds) == 1
			mu.Unlock()
			if first {
				close(begun)
				<-goOn
			}
			return c.Submit(ctx, j)
		})
	})
	w.hold(p, "r0")
	w.wish("7", "large", all...)
	<-begun
	w.wish("8", "small", all[0])
	w.until("the small deployment is known", func(pairs map[string]appcontext.Pair) bool { return pairs["edge+c0 8"].Desired != "" })
	close(goOn)
	w.applied(clusters+1, 1)
	mu.Lock()
	defer mu.Unlock()
	// Its pair is known a moment before it is queued, so one more commit may begin.
	if at := slices.IndexFunc(holds, func(of string) bool { return strings.Contains(of, "8") }); at < 1 || at > 2 || len(holds) > 5 {
		t.Errorf("the commits hold the deployments %q; the small one should be in the second", holds)
	}
}

// deploymentsIn returns the ids of the deployments that a job writes.
func deploymentsIn(j batch.Job) string {
	var ids []string
	for _, e := range j.Edits {
		if part := strings.Split(e.Path, "/"); len(part) > 3 && part[2] == "context" && !slices.Contains(ids, part[3]) {
			ids = append(ids, part[3])
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}
