package github_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/gittest/githubtest"
)

// A change that may not go to a branch is proposed, kept up to date, and taken or refused.
func TestH54Proposals(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	if err := srv.Protect("acme", "fleet", "main", githubtest.Rule{Status: 422, Message: "Changes must be made through a pull request."}); err != nil {
		t.Fatal(err)
	}
	_, err := h.Proposal(t.Context(), repo, "emco/main", "main")
	wantErr(t, "Proposal where there is none", err, errs.NotFound)
	m := git.Message{Title: "roll out", Trailers: []git.Trailer{{Key: "Emco-Op", Value: "7"}}}
	_, err = h.Propose(t.Context(), repo, "emco/main", "main", m)
	wantErr(t, "Propose of no branch", err, errs.Invalid)

	at := offer(t, h, bare, repo, head(t, bare), "1")
	first, err := h.Propose(t.Context(), repo, "emco/main", "main", m)
	if err != nil || first.State != git.ProposalOpen || first.Head != at || !strings.HasSuffix(first.URL, "/acme/fleet/pull/1") {
		t.Fatalf("Propose = %+v, %v", first, err)
	}
	at = offer(t, h, bare, repo, at, "2")
	m.Title = "roll out more"
	srv.Calls()
	if again, err := h.Propose(t.Context(), repo, "emco/main", "main", m); err != nil || again.Number != first.Number || again.Head != at {
		t.Errorf("Propose again = %+v, %v, want number %d at %s", again, err, first.Number, at)
	}
	if calls := srv.Calls(); calls["PATCH pulls/{number}"] != 1 || githubtest.Total(calls) != 2 {
		t.Errorf("Propose again cost %v", calls)
	}
	if _, err := h.Propose(t.Context(), repo, "emco/main", "main", m); err != nil || githubtest.Total(srv.Calls()) != 1 {
		t.Errorf("Propose of what is proposed: %v, or more than one call", err)
	}
	if err := srv.Merge("acme", "fleet", 1); err != nil {
		t.Fatal(err)
	}
	if merged, err := h.Proposal(t.Context(), repo, "emco/main", "main"); err != nil || merged.State != git.ProposalMerged || merged.Merged != head(t, bare) || merged.Head != at {
		t.Errorf("Proposal = %+v, %v, want it merged as %s", merged, err, head(t, bare))
	}
	offer(t, h, bare, repo, at, "3")
	second, err := h.Propose(t.Context(), repo, "emco/main", "main", m)
	if err != nil || second.Number != 2 {
		t.Fatalf("Propose after a merge = %+v, %v, want a new one", second, err)
	}
	if err := srv.Refuse("acme", "fleet", 2); err != nil {
		t.Fatal(err)
	}
	if closed, err := h.Proposal(t.Context(), repo, "emco/main", "main"); err != nil || closed.State != git.ProposalClosed || closed.Merged != "" {
		t.Errorf("Proposal = %+v, %v, want it closed", closed, err)
	}
}

// offer commits to the side branch, which starts at main's head.
func offer(t *testing.T, h *github.Host, bare gittest.Bare, repo git.Repo, parent git.Hash, content string) git.Hash {
	t.Helper()
	if _, err := h.Head(t.Context(), repo, "emco/main"); errs.Is(err, errs.NotFound) {
		must(bare.Git(t.Context(), "", "branch", "emco/main", string(parent)))
	}
	id, err := h.Commit(t.Context(), repo, "emco/main", parent, []git.Edit{{Path: "f", File: []byte(content)}}, git.Message{})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestMarks(t *testing.T) {
	t.Parallel()
	srv, bare, repo := seeded(t)
	h := host(t, github.Options{})
	at := head(t, bare)
	for _, m := range []git.CommitStatus{
		{Name: "emco/sync", State: git.StatusPending, Text: "on its way", URL: "https://emco.example/d/7"},
		{Name: "emco/sync", State: git.StatusSuccess, Text: strings.Repeat("ä", 200)},
		{Name: "emco/other", State: git.StatusFailure, Text: "broken"},
	} {
		if err := h.SetStatus(t.Context(), repo, at, m); err != nil {
			t.Errorf("Mark %+v: %v", m, err)
		}
	}
	got := srv.Statuses("acme", "fleet", at)
	if s := got["emco/sync"]; s.State != git.StatusSuccess || len([]rune(s.Text)) != 140 || got["emco/other"].State != git.StatusFailure {
		t.Errorf("statuses are %+v", got)
	}
	err := h.SetStatus(t.Context(), repo, git.Hash(strings.Repeat("1", 40)), git.CommitStatus{Name: "x", State: git.StatusSuccess})
	if err == nil {
		t.Error("Mark of a commit that is not there succeeds")
	}
}
