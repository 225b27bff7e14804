package batch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/budget"
)

// hosted are options for a repository at a provider, with the provider's budget.
func hosted() batch.Options {
	return batch.Options{
		Hosted: func(r git.Repo) bool { return budget.ProviderOf(r) != "" },
		Budget: budget.New(budget.Options{}),
	}
}

func hub(name string) git.Repo {
	return git.Repo{URL: "https://github.com/org/" + name + ".git", Token: "t"}
}

// storm has writers hand over changes, each the next when the one before is written, until
// the time is over. It returns what each path holds at last.
func storm(t *testing.T, w *batch.Writers, r git.Repo, writers int, length time.Duration) map[string]string {
	t.Helper()
	end := time.Now().Add(length)
	last := make([]string, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				text := fmt.Sprintf("writer %d change %d", i, n)
				j := batch.Job{Repo: r, Branch: "main", Edits: file(fmt.Sprintf("w%03d", i), text), Title: text}
				if _, err := w.Submit(t.Context(), j); err != nil {
					t.Errorf("%s: %v", text, err)
					return
				}
				last[i] = text
				time.Sleep(rand.N(length / 50)) //nolint:forbidigo // what a writer does meanwhile
			}
		})
	}
	wg.Wait()
	files := map[string]string{}
	for i, text := range last {
		files[fmt.Sprintf("w%03d", i)] = text
	}
	return files
}

// busiest returns the most times within a span.
func busiest(times []time.Time, span time.Duration) (most int) {
	for i, from := 0, 0; i < len(times); i++ {
		for times[i].Sub(times[from]) >= span {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// A lone caller never waits. Otherwise a commit waits for the callers that shared the last
// one, so that they share the next one too. It waits for a missing caller until the window
// ends.
func TestCommitsWaitForThoseWhoSharedTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(20 * time.Millisecond)
		w := batch.New(m, batch.Options{})
		defer w.Close()
		write := func(path string, n int) {
			if _, err := w.Submit(t.Context(), job(file(path, fmt.Sprint(n)))); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond) //nolint:forbidigo // what a caller does in between
		}
		start := time.Now()
		for n := range 10 {
			write("alone", n)
		}
		if took := time.Since(start); took != 210*time.Millisecond || len(m.messages) != 10 {
			t.Errorf("ten commits of one caller took %s and are %d, want 20 ms each and what it does in between", took, len(m.messages))
		}
		// The eight share their first commit because another one is under way. Otherwise the scheduler
		// would decide how many share it; after four of them, two groups of four would take turns.
		var wg sync.WaitGroup
		start = time.Now()
		wg.Go(func() { write("alone", 10) })
		synctest.Wait()
		for c := range 8 {
			wg.Go(func() {
				for n := range 9 + c/7 { // the last caller has one change more
					write(fmt.Sprint("c", c), n)
				}
			})
		}
		wg.Wait()
		want := 20*time.Millisecond + // the commit that was under way
			9*20*time.Millisecond + 8*time.Millisecond + // nine commits of all, and what the callers do in between
			50*time.Millisecond + 20*time.Millisecond + time.Millisecond // the window for seven who do not come back, and the last change
		if took, commits := time.Since(start), len(m.messages)-10; commits != 11 || took != want {
			t.Errorf("73 changes of eight callers took %s and %d commits, want %s and 11: eight changes a commit, and a window only at the end", took, commits, want)
		}
	})
}

// 200 writers for a minute on one hosted repository: nothing is lost, in few commits, and
// no more pushes a minute than the provider wants. Someone else pushes as well.
func TestTWaH50ManyWritersAreFewPushes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(300 * time.Millisecond)
		pushes, foreign := []time.Time{}, 0
		m.fail = func() error { // asked at each push, under the lock
			pushes = append(pushes, time.Now())
			if len(pushes)%4 == 0 {
				foreign++
				files := map[string]string{"README": fmt.Sprint(foreign)}
				for p, c := range m.commits[m.heads["main"]] {
					if p != "README" {
						files[p] = c
					}
				}
				id := git.Hash(fmt.Sprintf("foreign%d", foreign))
				m.commits[id], m.heads["main"] = files, id
			}
			return nil
		}
		w := batch.New(m, hosted())
		files := storm(t, w, hub("fleet"), 200, time.Minute)
		w.Close()
		files["README"] = fmt.Sprint(foreign)
		want(t, m, m.heads["main"], files)
		if got := busiest(pushes, time.Minute); len(m.messages) > 35 || got > 6 || foreign == 0 {
			t.Errorf("%d commits, %d pushes in the busiest minute, %d of others; want at most 35 and 6, and some", len(m.messages), got, foreign)
		}
	})
}

// The branches of a hosted repository share its window; other repositories do not wait.
func TestBranchesOfARepositoryShareTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		var times []time.Time
		m.fail = func() error { times = append(times, time.Now()); return nil }
		o := hosted()
		o.Budget = nil // the window alone
		w := batch.New(m, o)
		defer w.Close()
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 12 {
			j := batch.Job{Repo: hub("fleet"), Branch: fmt.Sprint("b", i), Edits: file("f", "x"), Urgent: i == 11}
			wg.Go(func() {
				if _, err := w.Submit(t.Context(), j); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); j.Urgent && took > 13*time.Second {
					t.Errorf("the urgent one took %s, want it in the second window", took)
				}
			})
			synctest.Wait()
		}
		other := batch.Job{Repo: hub("other"), Branch: "main", Edits: file("f", "x")}
		if _, err := w.Submit(t.Context(), other); err != nil || time.Since(start) > time.Second {
			t.Errorf("another repository: %v after %s, want it at once", err, time.Since(start))
		}
		wg.Wait()
		times = slices.Delete(times, 1, 2) // the other repository's
		if got := busiest(times, time.Minute); len(times) != 12 || got > 6 {
			t.Errorf("%d pushes, %d in the busiest minute; want 12, and at most 6", len(times), got)
		}
	})
}

// Urgent jobs go before others; a path holds what was handed over last all the same.
func TestUrgentJobsGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		w := batch.New(m, batch.Options{MaxPaths: 3})
		defer w.Close()
		jobs := []batch.Job{job(file("first", "0"))}
		for i := range 6 {
			jobs = append(jobs, job(file(fmt.Sprint("slow", i), "x")))
		}
		back := job(file("slow4", "rolled back"))
		back.Urgent = true
		jobs = append(jobs, back, job(file("after", "x")))
		results := submitAll(t, w, jobs...)
		want(t, m, results[7].commit, map[string]string{"first": "0", "slow4": "rolled back", "slow0": "x"})
		want(t, m, m.heads["main"], map[string]string{
			"first": "0", "slow0": "x", "slow1": "x", "slow2": "x", "slow3": "x", "slow4": "rolled back", "slow5": "x", "after": "x",
		})
		if results[7].commit != results[5].commit {
			t.Errorf("what was rolled back is in commit %v, and the change before it in %v; want one", results[7].commit, results[5].commit)
		}
	})
}

// Pushes that are tried again count as well, so that they do not exceed the budget either.
func TestLostRacesAreTakenFromTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		var times []time.Time
		lost := 8
		m.fail = func() error {
			times = append(times, time.Now())
			if lost--; lost >= 0 {
				m.heads["main"] = git.Hash(fmt.Sprint("foreign", lost))
			}
			return nil
		}
		w := batch.New(m, hosted())
		defer w.Close()
		if _, err := w.Submit(t.Context(), batch.Job{Repo: hub("fleet"), Branch: "main", Edits: file("f", "x")}); err != nil {
			t.Fatal(err)
		}
		if got := busiest(times, time.Minute); len(times) != 9 || got > 6 {
			t.Errorf("%d pushes, %d in the busiest minute; want 9, and at most 6", len(times), got)
		}
	})
}
