package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// logMemory is a memory with histories.
type logMemory struct {
	*memory
	since func(commit, base git.Hash) (git.Log, error)
}

func (m logMemory) Since(_ context.Context, _ git.Repo, commit, base git.Hash) (git.Log, error) {
	return m.since(commit, base)
}

// derivedMemory is a memory with derived branches; it records the updates that it receives.
type derivedMemory struct {
	*memory
	updates *[]git.DerivedUpdate
}

func (m derivedMemory) CommitDerived(ctx context.Context, r git.Repo, u git.DerivedUpdate) (git.DerivedResult, error) {
	*m.updates = append(*m.updates, u)
	id, err := m.Commit(ctx, r, u.Branch, u.Parent, u.Edits, u.Message)
	return git.DerivedResult{Commit: id, Removed: u.Remove}, err
}

// external puts a commit of someone else on a branch.
func (m *memory) external(branch string, id git.Hash, files map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits[id], m.heads[branch] = files, id
}

// Jobs of two owners of a shard do not share a commit: it can name only one of them.
func TestOwnersDoNotShareCommits(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]batch.Fence{
		"a later owner": {Shard: "s", Token: 2},
		"another shard": {Shard: "t", Token: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(time.Millisecond)
			w := batch.New(m, batch.Options{})
			defer w.Close()
			one, two, three := job(file("a", "1")), job(file("b", "1")), job(file("c", "1"))
			one.Fence, two.Fence, three.Fence = batch.Fence{Shard: "s", Token: 1}, batch.Fence{Shard: "s", Token: 1}, second
			results := submitAll(t, w, one, two, three)
			if results[1].err != nil || results[2].err != nil || results[1].commit == results[2].commit {
				t.Fatalf("%s: the jobs got %v and %v", name, results[1], results[2])
			}
			for i, want := range []string{"s:1", "s:1", second.String()} {
				if got := m.messages[i].Trailers; !slices.Contains(got, git.Trailer{Key: batch.FenceTrailer, Value: want}) {
					t.Errorf("%s: commit %d has the trailers %v, want the fence %s", name, i, got, want)
				}
			}
		})
	}
}

// A job that arrives just when its branch's goroutine ends is answered.
func TestAJobAtTheEndOfAnIdleBranchIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		w := batch.New(m, batch.Options{Idle: time.Second})
		defer w.Close()
		for i := range 300 {
			if _, err := w.Submit(t.Context(), job(file("f", string(rune('a'+i%2))))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) //nolint:forbidigo // of a bubble's clock: with the idle timer
		}
	})
}

// A caller that leaves while a commit is retried does not affect those that share it.
func TestOneCallerMayLeaveASharedCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		tries := 0
		m.fail = func() error {
			if tries++; tries == 2 || tries == 3 {
				return errs.Throttle("push", "", 20*time.Second, errors.New("slow down"))
			}
			return nil
		}
		w := batch.New(m, batch.Options{})
		defer w.Close()
		leaving, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		submit := func(ctx context.Context, path string) *error {
			err := new(error)
			wg.Go(func() { _, *err = w.Submit(ctx, job(file(path, "x"))) })
			synctest.Wait()
			return err
		}
		submit(t.Context(), "first")
		left, stays := submit(leaving, "a"), submit(t.Context(), "b")
		time.Sleep(10 * time.Second) //nolint:forbidigo // of a bubble's clock: in the middle of the wait
		leave()
		wg.Wait()
		if !errors.Is(*left, context.Canceled) || *stays != nil {
			t.Errorf("who left got %v, who stayed %v", *left, *stays)
		}
	})
}

// OnCommit is called for commits that are on the branch, and for no others.
func TestFailuresAreNoCommits(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(m *memory){
		"a refusal": func(m *memory) { m.fail = func() error { return errs.New(errs.Forbidden, "no") } },
		"an outage": func(m *memory) { m.fail = func() error { return errs.New(errs.Unavailable, "down") } },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(time.Millisecond)
			fail(m)
			w := batch.New(m, batch.Options{})
			defer w.Close()
			called := 0
			j := job(file("f", "x"))
			j.OnCommit = func(git.Hash) { called++ }
			if _, err := w.Submit(t.Context(), j); err == nil || called != 0 {
				t.Errorf("%s: %v, OnCommit called %d times", name, err, called)
			}
		})
	}
}

// A job cannot remove the branch that it writes, nor a derived branch that another job needs.
func TestNeededBranchesAreNotRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var updates []git.DerivedUpdate
		w := batch.New(derivedMemory{newMemory(time.Millisecond), &updates}, batch.Options{})
		defer w.Close()
		own := job(file("f", "x"))
		own.RemoveDerived = []string{"main"}
		if _, err := w.Submit(t.Context(), own); !errs.Is(err, errs.Invalid) {
			t.Errorf("removing the branch that is written: %v, want Invalid", err)
		}
		removes, needs := job(file("a", "x")), job(file("b", "x"))
		removes.RemoveDerived = []string{"clusters/one", "clusters/two"}
		needs.Derived = []git.DerivedBranch{{Branch: "clusters/one", Dir: "b"}}
		for i, r := range submitAll(t, w, job(file("first", "x")), removes, needs) {
			if r.err != nil {
				t.Fatalf("job %d: %v", i, r.err)
			}
		}
		if len(updates) != 1 || !slices.Equal(updates[0].Remove, []string{"clusters/two"}) {
			t.Errorf("the host is asked for %+v, want one update that removes clusters/two alone", updates)
		}
	})
}

// A rewritten branch invalidates what is cached of its history. A history that is too long
// to read proves nothing.
func TestH49ARewrittenBranchIsNotTrusted(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func() (git.Log, error){
		"a history that lacks the base": func() (git.Log, error) { return git.Log{}, nil },
		"a history that is too long":    func() (git.Log, error) { return git.Log{}, errs.New(errs.TooLarge, "too many commits") },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(time.Millisecond)
			w := batch.New(logMemory{m, func(_, _ git.Hash) (git.Log, error) { return answer() }}, batch.Options{})
			defer w.Close()
			base, err := w.Submit(t.Context(), job(file("f", "1")))
			if err != nil {
				t.Fatal(err)
			}
			m.external("main", "rewritten", map[string]string{"f": "theirs"})
			j := job(file("f", "2"))
			j.Base = base
			_, err = w.Submit(t.Context(), j)
			if rewritten, ok := errors.AsType[*batch.RewrittenError](err); !ok || rewritten.Base != base || rewritten.Head != "rewritten" {
				t.Errorf("%s: %v, want a RewrittenError", name, err)
			}
			if head, _ := m.Head(t.Context(), repo, "main"); head != "rewritten" {
				t.Errorf("%s: the branch is at %s", name, head)
			}
		})
	}
}

// A throttling server gets no request before its time, whichever caller waits.
func TestH52AThrottlingServerIsLeftAlone(t *testing.T) {
	t.Parallel()
	const pause = 25 * time.Second
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(time.Millisecond)
		var tries []time.Time
		m.fail = func() error {
			tries = append(tries, time.Now())
			if len(tries) < 4 {
				return errs.Throttle("push", "", pause, errors.New("slow down"))
			}
			return nil
		}
		w := batch.New(m, batch.Options{})
		defer w.Close()
		if _, err := w.Submit(t.Context(), job(file("f", "x"))); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(tries); i++ {
			if waited := tries[i].Sub(tries[i-1]); waited < pause {
				t.Errorf("try %d came after %s, want %s at least", i, waited, pause)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m, tries := newMemory(time.Millisecond), 0
		m.fail = func() error {
			tries++
			return errs.Throttle("push", "", time.Hour, errors.New("come back in an hour"))
		}
		w := batch.New(m, batch.Options{})
		defer w.Close()
		for _, interactive := range []bool{false, true} {
			j := job(file("f", "x"))
			j.Interactive = interactive
			if _, err := w.Submit(t.Context(), j); !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) < 50*time.Minute {
				t.Errorf("interactive %v: %v, to come back after %s", interactive, err, errs.RetryAfter(err))
			}
			time.Sleep(5 * time.Minute) //nolint:forbidigo // of a bubble's clock
		}
		if tries != 1 {
			t.Errorf("the server was tried %d times within its hour, want once", tries)
		}
	})
}

// externalEdit is a branch with one commit of ours and one of someone else on top.
type externalEdit struct {
	*memory
	ours git.Hash
	w    *batch.Writers
}

func newExternalEdit(t *testing.T, theirs git.Commit) externalEdit {
	m := newMemory(time.Millisecond)
	first := batch.New(m, batch.Options{})
	ours, err := first.Submit(t.Context(), job(file("f", "1")))
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	theirs.ID, theirs.Parents = "theirs", []git.Hash{ours}
	m.external("main", theirs.ID, map[string]string{"f": "theirs", "dir/held": "theirs"})
	w := batch.New(logMemory{m, func(commit, base git.Hash) (git.Log, error) {
		if commit == base {
			return git.Log{Grown: true}, nil
		}
		return git.NewLog(commit, base, map[git.Hash]git.Commit{theirs.ID: theirs}), nil
	}}, batch.Options{})
	return externalEdit{m, ours, w}
}

// External edits that the policy keeps stop all jobs that would overwrite them, however a job
// names the path, even if the policy is asked a second time.
func TestExternalEditsAreKept(t *testing.T) {
	t.Parallel()
	dir := []git.Edit{{Path: "dir", Dir: map[string][]byte{"other": []byte("x")}}}
	for name, edits := range map[string][]git.Edit{
		"the file": file("dir/held", "ours"), "the directory around it": dir, "a path below it": file("dir/held/below", "ours"),
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newExternalEdit(t, git.Commit{Message: "by hand\n"})
			defer b.w.Close()
			asked := 0
			ask := func(_ context.Context, commits []git.Commit) ([]string, error) {
				if asked++; asked == 1 {
					return nil, errs.New(errs.Unavailable, "the store does not answer")
				}
				if len(commits) != 1 || commits[0].ID != "theirs" {
					t.Errorf("%s: asked about %v", name, commits)
				}
				return []string{"dir/held"}, nil
			}
			held, again, free := job(edits), job(edits), job(file("g", "x"))
			for _, j := range []*batch.Job{&held, &again, &free} {
				j.Base, j.OnExternalEdits = b.ours, ask
			}
			for i, r := range submitAll(t, b.w, held, again, free) {
				if kept := i < 2; kept != errors.Is(r.err, batch.ErrExternalEdit) || !kept && r.err != nil {
					t.Errorf("%s: job %d: %v, want ErrExternalEdit: %v", name, i, r.err, kept)
				}
			}
			head, _ := b.Head(t.Context(), repo, "main")
			if got := b.files(head); got["dir/held"] != "theirs" {
				t.Errorf("%s: the branch holds %v", name, got)
			}
		})
	}
}

// Commits of ours, by whichever process, are no external edits.
func TestOwnCommitsAreNoExternalEdits(t *testing.T) {
	t.Parallel()
	for message, external := range map[string]bool{
		"ours\n\nEmco-Fence: rsync-03:7\n": false, "a derived branch\n\nEmco-Source: 12\n": false, "by hand\n": true, "by hand\n\nReviewed-by: x\n": true,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newExternalEdit(t, git.Commit{Message: message})
			defer b.w.Close()
			asked := false
			j := job(file("g", "x"))
			j.Base = b.ours
			j.OnExternalEdits = func(context.Context, []git.Commit) ([]string, error) {
				asked = true
				return nil, nil
			}
			if _, err := b.w.Submit(t.Context(), j); err != nil || asked != external {
				t.Errorf("%q: %v, reported as external: %v, want %v", message, err, asked, external)
			}
		})
	}
}
