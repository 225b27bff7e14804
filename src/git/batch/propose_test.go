package batch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// forge is a host with pull requests of one real repository.
type forge struct {
	*plain.Host
	*gittest.Proposals
}

func (f *forge) Close() error { return f.Host.Close() }

// protect makes a repository with a protected branch and its forge.
func protect(t *testing.T) (*forge, git.Repo) {
	t.Helper()
	_, bare, r := server(t)
	if err := bare.Protect(t.Context(), "main", "main is protected; the token was s3cr3t"); err != nil {
		t.Fatal(err)
	}
	return &forge{Host: plain.New(plain.Options{}), Proposals: &gittest.Proposals{Bare: bare}}, r
}

// ask hands a job over with writers of its own, as a process does that was just started.
func ask(t *testing.T, f *forge, r git.Repo, path, content string, propose bool) error {
	t.Helper()
	w := batch.New(f, batch.Options{})
	defer w.Close()
	_, err := w.Submit(t.Context(), batch.Job{Repo: r, Branch: "main", Edits: file(path, content), Title: "Update shop", Propose: propose})
	return err
}

func waits(t *testing.T, what string, err error, url string) {
	t.Helper()
	p, ok := errors.AsType[*batch.ProposedError](err)
	if !ok || !errs.Is(err, errs.Throttled) || errs.RetryAfter(err) == 0 || p.Proposal.URL != url || !strings.Contains(err.Error(), url) {
		t.Fatalf("%s: %v, want it to wait for %s", what, err, url)
	}
}

func show(t *testing.T, f *forge, branch, path, want string) {
	t.Helper()
	if got, err := f.Bare.Show(t.Context(), branch, path); err != nil || got != want {
		t.Errorf("%s of %s holds %q, %v, want %q", path, branch, got, err, want)
	}
}

// A protected branch is refused in the server's words. If the job allows proposals, the
// writer opens one pull request for all callers and retries.
func TestH54ProtectedBranches(t *testing.T) {
	t.Parallel()
	for _, squash := range []bool{false, true} {
		t.Run(fmt.Sprint("squash ", squash), func(t *testing.T) {
			t.Parallel()
			f, r := protect(t)
			err := ask(t, f, r, "a", "1", false)
			if !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "main is protected") || strings.Contains(err.Error(), "s3cr3t") {
				t.Fatalf("without proposals: %v, want the server's words without the token", err)
			}
			const first, second = "https://forge.example.org/pull/1", "https://forge.example.org/pull/2"
			waits(t, "first", ask(t, f, r, "a", "1", true), first)
			waits(t, "again", ask(t, f, r, "a", "1", true), first)
			waits(t, "another one", ask(t, f, r, "b", "1", true), first)
			show(t, f, "emco/main", "a", "1")
			show(t, f, "emco/main", "b", "1")

			if _, err := f.Bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"theirs": {Content: "x"}}); err != nil {
				t.Fatal(err)
			}
			waits(t, "after the branch went on", ask(t, f, r, "a", "2", true), first)
			waits(t, "what was proposed before", ask(t, f, r, "b", "1", true), first)
			show(t, f, "emco/main", "theirs", "x")
			show(t, f, "emco/main", "a", "2")
			show(t, f, "emco/main", "b", "1")

			if err := f.Merge(t.Context(), squash); err != nil {
				t.Fatal(err)
			}
			for path, content := range map[string]string{"a": "2", "b": "1"} {
				if err := ask(t, f, r, path, content, true); err != nil {
					t.Errorf("after the merge, %s: %v", path, err)
				}
				show(t, f, "main", path, content)
			}
			show(t, f, "main", "theirs", "x")

			waits(t, "something new", ask(t, f, r, "a", "3", true), second)
			f.Proposals.Close()
			err = ask(t, f, r, "a", "3", true)
			if p, ok := errors.AsType[*batch.ProposedError](err); !ok || !errs.Is(err, errs.Forbidden) || p.Proposal.URL != second {
				t.Errorf("after it was closed: %v, want Forbidden with its address", err)
			}
			waits(t, "something else", ask(t, f, r, "b", "2", true), "https://forge.example.org/pull/3")
			show(t, f, "emco/main", "a", "2") // not what was refused
			if err := f.Bare.Fsck(t.Context()); err != nil {
				t.Error(err)
			}
			if f.Count() != 3 {
				t.Errorf("%d pull requests, want 3", f.Count())
			}
		})
	}
}

// A proposed change that is reverted is done at once; the branch holds it already.
func TestAProposalThatIsTakenBack(t *testing.T) {
	t.Parallel()
	f, r := protect(t)
	if _, err := f.Bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"a": {Content: "0"}}); err != nil {
		t.Fatal(err)
	}
	waits(t, "proposed", ask(t, f, r, "a", "1", true), "https://forge.example.org/pull/1")
	if err := ask(t, f, r, "a", "0", true); err != nil {
		t.Errorf("taken back: %v", err)
	}
	show(t, f, "emco/main", "a", "0")
}

// A side branch without a proposal, which a crash leaves behind, is used.
func TestH55ASideBranchWithoutProposalIsUsed(t *testing.T) {
	t.Parallel()
	f, r := protect(t)
	waits(t, "proposed", ask(t, f, r, "a", "1", true), "https://forge.example.org/pull/1")
	f.Forget()
	waits(t, "found", ask(t, f, r, "a", "1", true), "https://forge.example.org/pull/1")
	if n, err := f.Bare.Git(t.Context(), "", "rev-list", "--count", "main..emco/main"); err != nil || n != "1" {
		t.Errorf("%s commits, %v, want the one", n, err)
	}
}

// An unprotected branch is written directly, even if the job allows proposals.
func TestNothingIsProposedWithoutNeed(t *testing.T) {
	t.Parallel()
	_, bare, r := server(t)
	f := &forge{Host: plain.New(plain.Options{}), Proposals: &gittest.Proposals{Bare: bare}}
	if err := ask(t, f, r, "a", "1", true); err != nil || f.Count() > 0 {
		t.Errorf("%v, %d proposals", err, f.Count())
	}
	show(t, f, "main", "a", "1")
}
