package gitwriter_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	deliver "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/gitwriter"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// announcingCommitter says when a job is submitted. It panics for job number panics.
type announcingCommitter struct {
	deliver.Committer
	began  chan int // buffered for all jobs
	jobs   int      // only the goroutine of the job that is submitted: there is one at a time
	panics int
}

func (c *announcingCommitter) Submit(ctx context.Context, job batch.Job) (git.Hash, error) {
	c.jobs++
	c.began <- c.jobs
	if c.jobs == c.panics {
		panic("a fault of the committer")
	}
	return c.Committer.Submit(ctx, job)
}

// dueOnMain makes a bundle desired on 2,500 clusters, which all read one branch.
func (f *fleet) dueOnMain() ([]pair.Target, map[pair.Target]route.Route) {
	byBranch, routes := f.due("one", 0, 2500, 10_000)
	main := syncobjects.Settings{Repo: f.settings.Repo, Branch: "main"}
	for t := range routes {
		routes[t] = route.Route{Backend: f.backend, Settings: &main}
	}
	return slices.Concat(slices.Collect(maps.Values(byBranch))...), routes
}

// While results are handled, the next job is on its way: neither the processor nor the Git server waits for the other.
func TestAJobIsCommittedWhileResultsAreHandled(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	commits := &announcingCommitter{Committer: f.writer.Commits, began: make(chan int, 10)}
	f.writer.Commits = commits
	due, routes := f.dueOnMain()
	var handled []int
	left := f.writer.Deliver(t.Context(), due, routes, func(results []pair.Result) {
		handled = append(handled, len(results))
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		for begun := 0; len(handled) < 3 && begun <= len(handled); {
			select {
			case begun = <-commits.began:
			case <-time.After(time.Minute):
				t.Fatalf("job %d has not begun while the results of job %d are handled", len(handled)+1, len(handled))
			}
		}
	}, always)
	if len(left) > 0 || len(handled) != 3 || handled[0] != 1000 || handled[2] != 500 {
		t.Errorf("%d targets are left, and %d results were handled, want three jobs of 1000, 1000 and 500", len(left), handled)
	}
}

// Others who wait for the branch get it after the job that is under way. What was planned ahead is not committed.
func TestJobsEndWhenOthersWait(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	due, routes := f.dueOnMain()
	handled, asked := 0, 0
	left := f.writer.Deliver(t.Context(), due, routes, func(results []pair.Result) { handled += len(results) }, func(left []pair.Target) bool {
		if asked++; len(left) != 1500 {
			t.Errorf("goOn is asked with %d targets left, want 1500", len(left))
		}
		return false
	})
	if len(left) != 1500 || handled != 1000 || asked != 1 || f.git("rev-list", "--count", "main") != "1" {
		t.Errorf("%d targets are left, %d results were handled, and goOn was asked %d times; want 1500, 1000 and 1, with one commit", len(left), handled, asked)
	}
	if left = f.writer.Deliver(t.Context(), left, routes, func([]pair.Result) {}, always); len(left) > 0 {
		t.Errorf("%d targets are left in the end", len(left))
	}
}

// A fault in one job fails its targets, and no others.
func TestAFaultInAJobFailsItsTargets(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.writer.Commits = &announcingCommitter{Committer: f.writer.Commits, began: make(chan int, 10), panics: 2}
	f.writer.Panics = &contain.Panics{Log: f.writer.Log, Count: func(string) {}}
	due, routes := f.dueOnMain()
	failed := 0
	f.writer.Deliver(t.Context(), due, routes, func(results []pair.Result) {
		for _, r := range results {
			if contain.Is(r.Err) {
				failed++
			}
		}
	}, always)
	if failed != 1000 {
		t.Errorf("%d targets failed, want 1000", failed)
	}
}

// A fault while results are handled reaches the caller when no commit is under way any longer.
func TestNoCommitOutlivesADelivery(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.writer.Commits = &announcingCommitter{Committer: f.writer.Commits, began: make(chan int, 10)}
	due, routes := f.dueOnMain()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the fault does not reach the caller")
			}
		}()
		f.writer.Deliver(t.Context(), due, routes, func([]pair.Result) { panic("a fault of the caller") }, always)
	}()
	if n := f.git("rev-list", "--count", "main"); n != "2" {
		t.Errorf("the branch has %s commits, want that of the second job too", n)
	}
}
