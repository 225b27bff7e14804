package github_test

import (
	"errors"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
)

// The writer proposes what a protected branch does not take, keeps it up to date with the
// branch, and is done once it is merged.
func TestH54AWriterProposes(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	if err := srv.Protect("acme", "fleet", "main", githubtest.Rule{Status: 422, Message: "Changes must be made through a pull request."}); err != nil {
		t.Fatal(err)
	}
	submit := func(content string) error {
		w := batch.New(host(t, github.Options{}), batch.Options{})
		defer w.Close()
		_, err := w.Submit(t.Context(), batch.Job{Repo: repo, Branch: "main", Propose: true, Title: "roll out", Edits: []git.Edit{{Path: "f", File: []byte(content)}}})
		return err
	}
	waits := func(what string, err error, number int64) {
		t.Helper()
		if p, ok := errors.AsType[*batch.ProposedError](err); !ok || p.Proposal.Number != number || p.Proposal.State != git.ProposalOpen {
			t.Fatalf("%s: %v, want it to wait for number %d", what, err, number)
		}
	}
	waits("first", submit("1"), 1)
	waits("again", submit("1"), 1)
	foreign(t, t.Context(), bare, map[string]gittest.File{"theirs": {Content: "x"}})
	waits("after the branch went on", submit("2"), 1)
	if got, err := bare.Show(t.Context(), "emco/main", "theirs"); err != nil || got != "x" {
		t.Errorf("what is proposed is not based on the branch: %q, %v", got, err)
	}
	if err := srv.Merge("acme", "fleet", 1); err != nil {
		t.Fatal(err)
	}
	if err := submit("2"); err != nil {
		t.Errorf("after the merge: %v", err)
	}
	waits("something new", submit("3"), 2)
}

// A branch of ours is put elsewhere; others do not leave their history.
func TestMove(t *testing.T) {
	t.Parallel()
	_, bare, repo := seeded(t)
	h := host(t, github.Options{})
	base := head(t, bare)
	m := git.BranchReset{Branch: "emco/main", Onto: base, Edits: []git.Edit{{Path: "f", File: []byte("1")}}}
	side, err := h.ResetBranch(t.Context(), repo, m)
	if err != nil || side == base {
		t.Fatalf("Move = %s, %v", side, err)
	}
	_, err = h.ResetBranch(t.Context(), repo, m)
	wantErr(t, "Move of a branch that is there", err, errs.Conflict)
	m.From, m.Edits = side, nil
	if at, err := h.ResetBranch(t.Context(), repo, m); err != nil || at != base {
		t.Errorf("Move back = %s, %v", at, err)
	}
	_, err = h.ResetBranch(t.Context(), repo, m)
	wantErr(t, "Move from where it was", err, errs.Conflict)
	next := foreign(t, t.Context(), bare, map[string]gittest.File{"theirs": {Content: "x"}})
	_, err = h.ResetBranch(t.Context(), repo, git.BranchReset{Branch: "main", From: next, Onto: base})
	wantErr(t, "Move of a branch that may not leave its history", err, errs.Forbidden)
}
