package batch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

var repo = git.Repo{URL: "https://git.example.org/r.git", Token: "s3cr3t"}

func file(path, content string) []git.Edit {
	return []git.Edit{{Path: path, File: []byte(content)}}
}

func job(edits []git.Edit) batch.Job {
	return batch.Job{Repo: repo, Branch: "main", Edits: edits, Title: "t"}
}

// result is what one Submit returned.
type result struct {
	commit git.Hash
	err    error
}

// submitAll submits jobs at the same time, in order, and waits for all. The first
// one occupies the writer, so that the others meet in its queue.
func submitAll(t *testing.T, w *batch.Writers, jobs ...batch.Job) []result {
	t.Helper()
	results := make([]result, len(jobs))
	var wg sync.WaitGroup
	for i, j := range jobs {
		wg.Go(func() { results[i].commit, results[i].err = w.Submit(t.Context(), j) })
		synctest.Wait()
	}
	wg.Wait()
	return results
}

func want(t *testing.T, m *memory, at git.Hash, files map[string]string) {
	t.Helper()
	if got := m.files(at); !maps.Equal(got, files) {
		t.Errorf("commit %s holds %v, want %v", at, got, files)
	}
}

func TestJobsThatWaitShareACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(20 * time.Millisecond)
		var events []batch.Event
		w := batch.New(m, batch.Options{Observe: func(e batch.Event) { events = append(events, e) }})
		start := time.Now()
		jobs := []batch.Job{job(file("first", "0"))}
		for i := range 1000 {
			j := job(file(fmt.Sprintf("c%04d", i), "x"))
			j.Title = fmt.Sprintf("job %d", i)
			j.Trailers = []git.Trailer{{Key: "Emco-Op", Value: "op-1"}, {Key: "Emco-Clusters", Value: fmt.Sprintf("p+c%04d, p+c%04d", i, (i+1)%1000)}}
			j.Exact = []git.Trailer{{Key: "Traceparent", Value: fmt.Sprintf("00-%032d-%016d-01", 1, i+1)}}
			jobs = append(jobs, j)
		}
		results := submitAll(t, w, jobs...)
		for i, r := range results[1:] {
			if r.err != nil || r.commit != results[1].commit {
				t.Fatalf("job %d: %v, %v, want commit %v", i, r.commit, r.err, results[1].commit)
			}
		}
		if took := time.Since(start); took != 40*time.Millisecond {
			t.Errorf("took %v, want 20 ms for the first, and 20 ms for those that came meanwhile", took)
		}
		w.Close()
		if len(m.messages) != 2 || len(m.files(results[1].commit)) != 1001 {
			t.Errorf("%d commits and %d files, want 2 and 1001", len(m.messages), len(m.files(results[1].commit)))
		}
		got := m.messages[1].Text()
		if !strings.HasPrefix(got, "job 0 (and 999 more)\n\nEmco-Op: op-1\nEmco-Clusters: p+c0000, p+c0001, ") || !strings.Contains(got, "p+c0031, … (968 more)\nTraceparent: ") {
			t.Errorf("the message is %q", got)
		}
		_, list, _ := strings.Cut(strings.TrimSuffix(got, "\n"), "\nTraceparent: ")
		spans := strings.Split(list, ", ")
		for _, s := range spans {
			if len(s) != len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") {
				t.Errorf("%q is no trace context", s)
			}
		}
		if len(spans) != 32 {
			t.Errorf("%d spans are listed, want 32", len(spans))
		}
		if e := events[1]; e.Jobs != 1000 || e.Paths != 1000 || e.Bytes != 1000 || !e.Committed || e.Failed || e.Branch != "main" {
			t.Errorf("event %+v", e)
		}
	})
}

func TestLaterJobsWin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		w := batch.New(m, batch.Options{})
		defer w.Close()
		dir := []git.Edit{{Path: "d", Dir: map[string][]byte{"x": []byte("dir")}}}
		results := submitAll(t, w, job(file("first", "0")),
			job(file("a", "1")), job(file("a", "2")), // one commit: the second wins
			job(file("d/y", "below")), // joins it
			job(dir),                  // around the last: a commit of its own
			job(file("d/x/z", "deeper")))
		for i, r := range results {
			if r.err != nil {
				t.Fatalf("job %d: %v", i, r.err)
			}
		}
		if len(m.messages) != 4 || results[1].commit != results[2].commit || results[2].commit != results[3].commit {
			t.Errorf("%d commits, %v", len(m.messages), results)
		}
		want(t, m, results[3].commit, map[string]string{"first": "0", "a": "2", "d/y": "below"})
		want(t, m, results[4].commit, map[string]string{"first": "0", "a": "2", "d/x": "dir"})
		want(t, m, results[5].commit, map[string]string{"first": "0", "a": "2", "d/x": "dir", "d/x/z": "deeper"})
	})
}

func TestABadJobFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		w := batch.New(m, batch.Options{})
		defer w.Close()
		jobs := []batch.Job{job(file("first", "0"))}
		for i := range 9 {
			jobs = append(jobs, job(file(fmt.Sprintf("good%d", i), "x")))
		}
		jobs[3], jobs[5], jobs[8] = job(file("../etc", "x")), job(file("linked/x", "x")), job(file("bad", "refused"))
		kinds := map[int]errs.Kind{3: errs.Invalid, 5: errs.Invalid, 8: errs.Forbidden}
		results := submitAll(t, w, jobs...)
		for i, r := range results {
			kind, bad := kinds[i]
			if bad != (r.err != nil) || bad && !errs.Is(r.err, kind) {
				t.Errorf("job %d: got %v, want an error: %v of kind %v", i, r.err, bad, kind)
			}
		}
		head, err := m.Head(t.Context(), repo, "main")
		if err != nil || len(m.files(head)) != 7 {
			t.Errorf("the branch holds %v, %v, want the 7 good files", m.files(head), err)
		}
	})
}

// A job whose commit panics fails alone; jobs beside it and after it arrive.
func TestF74ACommitThatPanicsFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, panicked := newMemory(time.Millisecond), 0
		w := batch.New(m, batch.Options{Observe: func(e batch.Event) {
			if e.Panicked {
				panicked++
			}
		}})
		defer w.Close()
		results := submitAll(t, w, job(file("a", "0")), job(file("b", "0")), job(file("c", "panics")), job(file("d", "0")))
		for i, r := range results {
			if _, fault := errors.AsType[*batch.PanicError](r.err); fault != (i == 2) || !fault && r.err != nil {
				t.Errorf("job %d: %v", i, r.err)
			}
		}
		if panicked == 0 {
			t.Error("no panic is observed")
		}
		if r := submitAll(t, w, job(file("later", "0"))); r[0].err != nil {
			t.Errorf("a later job: %v", r[0].err)
		}
	})
}

// When everything is refused, the server is not asked once for every job.
func TestARefusalOfAllIsGivenBackSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		asked := 0
		m.fail = func() error { asked++; return errs.New(errs.Forbidden, "protected branch") }
		w := batch.New(m, batch.Options{})
		defer w.Close()
		var jobs []batch.Job
		for i := range 500 {
			jobs = append(jobs, job(file(fmt.Sprint(i), "x")))
		}
		for i, r := range submitAll(t, w, jobs...) {
			if !errs.Is(r.err, errs.Forbidden) {
				t.Fatalf("job %d: got %v, want Forbidden", i, r.err)
			}
		}
		if asked > 40 {
			t.Errorf("the server was asked %d times for 500 jobs", asked)
		}
	})
}

func TestErrorsAreTriedAgainOrGivenBack(t *testing.T) {
	t.Parallel()
	conflict, outage := errs.New(errs.Conflict, "lost"), errs.New(errs.Unavailable, "down")
	throttle := errs.Throttle("push", "", 30*time.Second, errors.New("slow down"))
	for _, c := range []struct {
		name  string
		fails []error
		kind  errs.Kind
		ok    bool
		least time.Duration
	}{
		{"many lost races", slices.Repeat([]error{conflict}, 50), 0, true, 0},
		{"races until the deadline", slices.Repeat([]error{conflict}, 10000), errs.Conflict, false, time.Minute},
		{"a short outage", []error{outage, outage}, 0, true, 100 * time.Millisecond},
		{"a long outage", slices.Repeat([]error{outage}, 100), errs.Unavailable, false, 0},
		{"a throttle that fits", []error{throttle}, 0, true, 30 * time.Second},
		{"throttles beyond the deadline", slices.Repeat([]error{throttle}, 10), errs.Throttled, false, 90 * time.Second},
		{"throttles that end at once", slices.Repeat([]error{errs.Throttle("push", "", 0, errors.New("slow down"))}, 200), errs.Throttled, false, time.Minute},
		{"a wrong token", []error{errs.New(errs.Unauthorized, "who")}, errs.Unauthorized, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(time.Millisecond)
				m.fail = func() error {
					if len(c.fails) == 0 {
						return nil
					}
					err := c.fails[0]
					c.fails = c.fails[1:]
					return err
				}
				w := batch.New(m, batch.Options{})
				defer w.Close()
				start := time.Now()
				_, err := w.Submit(t.Context(), job(file("f", "x")))
				if c.ok != (err == nil) || !c.ok && !errs.Is(err, c.kind) {
					t.Errorf("got %v, want success %v or kind %v", err, c.ok, c.kind)
				}
				if took := time.Since(start); took < c.least || took > 2*time.Minute+m.takes { // the last try may start at the deadline
					t.Errorf("took %v, want at least %v and at most the deadline and one try", took, c.least)
				}
			})
		})
	}
}

// The reply is lost, but the commit was made: it is found, not made again.
func TestLostReplyMakesNoSecondCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		lost := 1
		m.after = func() error {
			if lost--; lost >= 0 {
				return errs.New(errs.Unavailable, "reply lost")
			}
			return nil
		}
		var events []batch.Event
		w := batch.New(m, batch.Options{Observe: func(e batch.Event) { events = append(events, e) }})
		at, err := w.Submit(t.Context(), job(file("f", "x")))
		w.Close()
		if err != nil || len(m.messages) != 1 || m.heads["main"] != at {
			t.Errorf("got %v, %v and %d commits, want the one commit", at, err, len(m.messages))
		}
		if len(events) != 1 || !events[0].Committed || events[0].Retries != 1 {
			t.Errorf("events %+v", events)
		}
	})
}

// Edits that were there when we last looked, but were undone since, are made again.
func TestDriftIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		w := batch.New(m, batch.Options{})
		defer w.Close()
		first, err := w.Submit(t.Context(), job(file("f", "ours")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Commit(t.Context(), repo, "main", first, file("f", "theirs"), git.Message{}); err != nil {
			t.Fatal(err)
		}
		at, err := w.Submit(t.Context(), job(file("f", "ours")))
		if err != nil || at != m.heads["main"] {
			t.Fatalf("Submit = %v, %v, want the head %v", at, err, m.heads["main"])
		}
		want(t, m, at, map[string]string{"f": "ours"})
		again, err := w.Submit(t.Context(), job(file("f", "ours")))
		if err != nil || again != at {
			t.Errorf("the same again = %v, %v, want %v", again, err, at)
		}
	})
}

func TestCapsSplitCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		w := batch.New(m, batch.Options{MaxBytes: 100, MaxPaths: 5})
		defer w.Close()
		big := strings.Repeat("x", 60)
		same := []byte(big)
		results := submitAll(t, w, job(file("first", "0")),
			job(file("a", big)), job(file("b", big)), // too many bytes for one
			job([]git.Edit{{Path: "c", File: same}}), job([]git.Edit{{Path: "d", File: same}}), // the same bytes count once
			job([]git.Edit{{Path: "e", Dir: map[string][]byte{"1": nil, "2": nil, "3": nil, "4": nil, "5": nil, "6": nil}}})) // alone
		for i, r := range results {
			if r.err != nil {
				t.Fatalf("job %d: %v", i, r.err)
			}
		}
		var distinct []git.Hash
		for _, r := range results {
			distinct = append(distinct, r.commit)
		}
		if got := len(slices.Compact(distinct)); got != 5 || results[3].commit != results[4].commit {
			t.Errorf("%d commits, want 5 with the fourth and fifth job in one: %v", got, distinct)
		}
	})
}

// Jobs with other credentials do not ride on someone else's.
func TestCredentialsAreNotMixed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		w := batch.New(m, batch.Options{})
		defer w.Close()
		other := job(file("b", "x"))
		other.Repo.Token = "rotated"
		results := submitAll(t, w, job(file("first", "0")), job(file("a", "x")), other)
		if results[1].commit == results[2].commit || results[1].err != nil || results[2].err != nil {
			t.Errorf("jobs with different tokens: %v", results)
		}
	})
}

// A branch without work ends its goroutine; synctest fails if any is left.
func TestIdleBranchesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		w := batch.New(m, batch.Options{Idle: time.Second})
		for i := range 50 {
			j := job(file("f", "x"))
			j.Branch = fmt.Sprintf("b%d", i)
			if _, err := w.Submit(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		if n := w.Active(); n != 50 {
			t.Errorf("%d branches are active, want 50", n)
		}
		time.Sleep(2 * time.Second) // of the bubble's clock
		synctest.Wait()
		if n := w.Active(); n != 0 {
			t.Errorf("%d branches are active after the idle time, want none", n)
		}
		if _, err := w.Submit(t.Context(), job(file("f", "again"))); err != nil {
			t.Errorf("Submit after the idle time: %v", err)
		}
		w.Close()
		if _, err := w.Submit(t.Context(), job(file("f", "late"))); !errs.Is(err, errs.Unavailable) {
			t.Errorf("Submit after Close: %v, want Unavailable", err)
		}
	})
}

func TestCloseFinishesWhatIsQueued(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		takes time.Duration
		ok    bool
	}{{"in time", time.Second, true}, {"after the grace", 0, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(c.takes)
				if !c.ok {
					m.fail = func() error { return errs.New(errs.Conflict, "lost") }
				}
				w := batch.New(m, batch.Options{})
				var wg sync.WaitGroup
				for i := range 3 {
					wg.Go(func() {
						if _, err := w.Submit(t.Context(), job(file(fmt.Sprint(i), "x"))); c.ok != (err == nil) {
							t.Errorf("Submit: %v, want success %v", err, c.ok)
						}
					})
					synctest.Wait()
				}
				start := time.Now()
				w.Close()
				if took := time.Since(start); took > 11*time.Second {
					t.Errorf("Close took %v", took)
				}
				wg.Wait()
			})
		})
	}
}

// Nothing is tried again for callers who have left, and the next one need not wait.
func TestNothingIsTriedForThoseWhoLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		m.fail = func() error { return errs.Throttle("push", "", time.Minute, errors.New("slow down")) }
		w := batch.New(m, batch.Options{})
		defer w.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var left sync.WaitGroup
		for i := range 3 {
			left.Go(func() { _, _ = w.Submit(ctx, job(file(fmt.Sprint(i), "x"))) })
			synctest.Wait()
		}
		cancel()
		left.Wait()
		synctest.Wait()
		m.recover()
		start := time.Now()
		if _, err := w.Submit(t.Context(), job(file("f", "x"))); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("the next one waited %v", took)
		}
	})
}

func TestCallersMayLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Second)
		w := batch.New(m, batch.Options{MaxQueue: 2})
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 4 { // one in work, one queued, two that find no room
			wg.Go(func() {
				if _, err := w.Submit(ctx, job(file(fmt.Sprint(i), "x"))); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Submit %d: %v, want the context's error", i, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		at, err := w.Submit(t.Context(), job(file("later", "x")))
		if err != nil {
			t.Fatal(err)
		}
		want(t, m, at, map[string]string{"0": "x", "later": "x"})
	})
}
