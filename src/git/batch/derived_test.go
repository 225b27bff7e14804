package batch_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// clusterJob writes a file of a cluster, and has the cluster's view show it.
func clusterJob(repo git.Repo, cluster, content string) batch.Job {
	return batch.Job{
		Repo: repo, Branch: "shard", Edits: file("clusters/p+"+cluster+"/f", content), Title: "t",
		Derived: []git.DerivedBranch{{Branch: "clusters/p+" + cluster, Dir: "clusters/p+" + cluster}},
	}
}

// Jobs that share a commit share the push of their derived branches, and each gets its own result.
func TestViewsOfJobsShareAPush(t *testing.T) {
	t.Parallel()
	srv, bare, repo := server(t)
	w := batch.New(plain.New(plain.Options{}), batch.Options{})
	defer w.Close()
	if _, err := w.Submit(t.Context(), clusterJob(repo, "c0", "first")); err != nil {
		t.Fatal(err)
	}
	_, before := srv.Requests()
	var mu sync.Mutex
	told := map[string]git.Hash{}
	var wg sync.WaitGroup
	for i := range 20 {
		j := clusterJob(repo, fmt.Sprintf("c%d", i), "x")
		j.OnDerived = func(shown git.DerivedResult) {
			at := shown.Heads
			mu.Lock()
			defer mu.Unlock()
			if len(at) != 1 {
				t.Errorf("a job gets %v", at)
			}
			told[j.Derived[0].Branch] = at[j.Derived[0].Branch]
		}
		wg.Go(func() {
			if _, err := w.Submit(t.Context(), j); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, n := srv.Requests(); n-before > 4 {
		t.Errorf("%d pushes for 20 jobs", n-before)
	}
	for branch, id := range told {
		if at, err := bare.Git(t.Context(), "", "rev-parse", branch); err != nil || at != string(id) {
			t.Errorf("%s is at %s, %v, and reported at %s", branch, at, err, id)
		}
	}
	if len(told) != 20 {
		t.Errorf("%d jobs got their derived branches, want 20", len(told))
	}
}

// A derived branch that is refused fails its jobs, and no others.
func TestARefusedViewFailsItsJobAlone(t *testing.T) {
	t.Parallel()
	_, bare, repo := server(t)
	if err := bare.Hook("update", `test "$1" != refs/heads/clusters/p+c1 || { echo protected >&2; exit 1; }`); err != nil {
		t.Fatal(err)
	}
	w := batch.New(plain.New(plain.Options{}), batch.Options{})
	defer w.Close()
	failed := make([]error, 8)
	var wg sync.WaitGroup
	for i := range failed {
		wg.Go(func() { _, failed[i] = w.Submit(t.Context(), clusterJob(repo, fmt.Sprintf("c%d", i), "x")) })
	}
	wg.Wait()
	for i, err := range failed {
		if want := i == 1; want != errs.Is(err, errs.Forbidden) || !want && err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if out, err := bare.Git(t.Context(), "", "ls-tree", "-r", "--name-only", "shard"); err != nil || strings.Count(out, "\n") != 6 || strings.Contains(out, "c1/") {
		t.Errorf("the branch holds %s, %v", out, err)
	}
}

// A job without edits updates derived branches, and the log names those that someone else had
// moved.
func TestH49AJobWithoutEditsPutsViewsRight(t *testing.T) {
	t.Parallel()
	_, bare, repo := server(t)
	var log strings.Builder
	w := batch.New(plain.New(plain.Options{}), batch.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	j := clusterJob(repo, "c0", "x")
	head, err := w.Submit(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bare.CommitExternal(t.Context(), "clusters/p+c0", map[string]gittest.File{"clusters/p+c0/f": {Content: "theirs"}}); err != nil {
		t.Fatal(err)
	}
	j.Edits = nil
	if at, err := w.Submit(t.Context(), j); err != nil || at != head {
		t.Errorf("Submit = %s, %v, want %s", at, err, head)
	}
	w.Close()
	if got, err := bare.Show(t.Context(), "clusters/p+c0", "clusters/p+c0/f"); err != nil || got != "x" {
		t.Errorf("the derived branch holds %q, %v", got, err)
	}
	if !strings.Contains(log.String(), "someone else changed") {
		t.Errorf("the log lacks it: %s", log.String())
	}
}
