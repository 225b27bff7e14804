package gitlab_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	api "gitlab.com/gitlab-org/api/client-go"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gitlab"
	"github.com/emco-orchestrator/emco/src/git/gittest/gitlabtest"
)

// keeper is someone who decides on merge requests, by GitLab's own client.
func (s stage) keeper(t *testing.T) *api.Client {
	t.Helper()
	c, err := api.NewClient(maintainer, api.WithBaseURL(s.API()), api.WithoutRetries())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var change = git.Message{Title: "deploy till", Trailers: []git.Trailer{{Key: "Emco-Op", Value: "1"}, {Key: "Note", Value: "/close @all"}}}

// A protected branch refuses the push in GitLab's words; the change is proposed, taken by
// someone who may, and is then in the branch.
func TestH54ProtectedBranchesAreProposedTo(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	r := s.as(developer)
	_, err := s.put(t.Context(), r, "main", "f")
	for _, want := range []string{"not allowed to push code to protected branches", "branch main is protected", "merge request"} {
		if !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), want) {
			t.Errorf("Commit to a protected branch: %v of kind %v, want Forbidden and %q", err, errs.KindOf(err), want)
		}
	}
	if _, err := s.host.Proposal(t.Context(), r, "emco/f", "main"); !errs.Is(err, errs.NotFound) {
		t.Errorf("Proposal before there is one: %v, want NotFound", err)
	}
	head := s.branchOff(t, "emco/f", "f")
	p, err := s.host.Propose(t.Context(), r, "emco/f", "main", change)
	if err != nil || p.State != git.ProposalOpen || p.Head != head || p.Number != 1 || !strings.HasSuffix(p.URL, project+"/-/merge_requests/1") {
		t.Fatalf("Propose = %+v, %v", p, err)
	}
	mr, _, err := s.keeper(t).MergeRequests.AcceptMergeRequest(project, p.Number, &api.AcceptMergeRequestOptions{SHA: api.Ptr(string(head))})
	if err != nil {
		t.Fatal(err)
	}
	if mr.Description != "```\nEmco-Op: 1\nNote: /close @all\n```" {
		t.Errorf("the description is %q", mr.Description)
	}
	p, err = s.host.Proposal(t.Context(), r, "emco/f", "main")
	if at, headErr := s.host.Head(t.Context(), r, "main"); err != nil || headErr != nil || p.State != git.ProposalMerged || p.Merged != at {
		t.Errorf("Proposal = %+v, %v, want it merged by %s, %v", p, err, at, headErr)
	}
}

// Every refusal because of a protected branch names the branch.
func TestH54EveryRefusalSaysWhy(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	if err := s.Protect(project, "status/*", gitlabtest.Nobody, gitlabtest.Nobody); err != nil {
		t.Fatal(err)
	}
	old := s.branchOff(t, "status/c", "f")
	main, err := s.host.Head(t.Context(), s.repo, "main")
	if err != nil {
		t.Fatal(err)
	}
	edits := []git.Edit{{Path: "clusters/c/f", File: []byte("f")}}
	_, replaced := s.host.Replace(t.Context(), s.repo, "status/c", old, map[string][]byte{"f": []byte("g")}, change)
	_, shown := s.host.CommitDerived(t.Context(), s.as(developer), git.DerivedUpdate{Branch: "main", Parent: main, Edits: edits, Derived: []git.DerivedBranch{{Branch: "view/c", Dir: "clusters/c"}}, Message: change})
	for branch, err := range map[string]error{"status/c": replaced, "main": shown} {
		if !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "GitLab: You are not allowed") || !strings.Contains(err.Error(), "branch "+branch+" is protected") {
			t.Errorf("%s: %v of kind %v, want Forbidden since it is protected", branch, err, errs.KindOf(err))
		}
	}
	if err := s.bare.Reject("GitLab: File is larger than the allowed size of 5 MiB. Use Git LFS to manage this file."); err != nil {
		t.Fatal(err)
	}
	if _, err := s.put(t.Context(), s.repo, "main", "big"); err == nil || !strings.Contains(err.Error(), "allowed size") || strings.Contains(err.Error(), "is protected") {
		t.Errorf("a rule of another kind: %v, want GitLab's words alone", err)
	}
}

// A project that takes no merge commits is at the newest commit of the branch afterwards.
func TestMergesByFastForward(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	if err := s.FastForward(project); err != nil {
		t.Fatal(err)
	}
	head := s.branchOff(t, "emco/f", "f")
	p, err := s.host.Propose(t.Context(), s.repo, "emco/f", "main", change)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.keeper(t).MergeRequests.AcceptMergeRequest(project, p.Number, nil); err != nil {
		t.Fatal(err)
	}
	if p, err = s.host.Proposal(t.Context(), s.repo, "emco/f", "main"); err != nil || p.State != git.ProposalMerged || p.Merged != head {
		t.Errorf("Proposal = %+v, %v, want it merged by %s", p, err, head)
	}
}

// GitLab does not know at once what a new request's branch holds; Git does.
func TestTheHeadOfANewRequest(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	head := s.branchOff(t, "emco/f", "f")
	s.Fail(gitlabtest.Fault{Status: 200, Header: map[string]string{"Content-Type": "application/json"}, Body: `[{"iid":1,"state":"opened","source_branch":"emco/f","sha":null}]`})
	if p, err := s.host.Proposal(t.Context(), s.repo, "emco/f", "main"); err != nil || p.Head != head {
		t.Errorf("Proposal = %+v, %v, want the head %s", p, err, head)
	}
}

// A writer proposes what a protected branch does not take, waits, and is done once a
// keeper has merged it.
func TestH54AWriterProposes(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	w := batch.New(s.host, batch.Options{})
	defer w.Close()
	job := batch.Job{
		Repo: s.as(developer), Branch: "main", Edits: []git.Edit{{Path: "f", File: []byte("f")}}, Title: "deploy", Propose: true,
	}
	var open *batch.ProposedError
	for range 2 {
		if _, err := w.Submit(t.Context(), job); !errors.As(err, &open) || !errs.Is(err, errs.Throttled) || open.Proposal.Number != 1 {
			t.Fatalf("Submit: %v, want the first merge request to be open", err)
		}
	}
	if _, _, err := s.keeper(t).MergeRequests.AcceptMergeRequest(project, 1, nil); err != nil {
		t.Fatal(err)
	}
	at, err := w.Submit(t.Context(), job)
	head, headErr := s.host.Head(t.Context(), s.repo, "main")
	if err != nil || headErr != nil || at != head {
		t.Errorf("Submit = %s, %v, want what main holds: %s, %v", at, err, head, headErr)
	}
	if text, err := s.bare.Show(t.Context(), "main", "f"); err != nil || text != "f" {
		t.Errorf("main holds %q, %v", text, err)
	}
}

// Proposing again brings the open request up to date, and asks for nothing if it is.
func TestProposingAgainReturnsTheOpenOne(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	s.branchOff(t, "emco/f", "f")
	for i, title := range []string{"one", "two", "two"} {
		before := len(s.Calls())
		p, err := s.host.Propose(t.Context(), s.repo, "emco/f", "main", git.Message{Title: title})
		if err != nil || p.Number != 1 {
			t.Fatalf("Propose %d = %+v, %v, want number 1", i, p, err)
		}
		if calls, want := len(s.Calls())-before, []int{2, 2, 1}[i]; calls != want {
			t.Errorf("Propose %d took %d calls, want %d", i, calls, want)
		}
	}
	mr, _, err := s.keeper(t).MergeRequests.UpdateMergeRequest(project, 1, &api.UpdateMergeRequestOptions{StateEvent: api.Ptr("close")})
	if err != nil || mr.Title != "two" {
		t.Fatalf("closing: %+v, %v, want the title two", mr, err)
	}
	if p, err := s.host.Proposal(t.Context(), s.repo, "emco/f", "main"); err != nil || p.State != git.ProposalClosed {
		t.Errorf("Proposal = %+v, %v, want it closed", p, err)
	}
	if p, err := s.host.Propose(t.Context(), s.repo, "emco/f", "main", git.Message{Title: "three"}); err != nil || p.Number != 2 {
		t.Errorf("Propose after it was closed = %+v, %v, want number 2", p, err)
	}
}

// Of many who propose at once, one opens the request and all get it.
func TestManyProposeAtOnce(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	s.branchOff(t, "emco/f", "f")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if p, err := s.host.Propose(t.Context(), s.repo, "emco/f", "main", change); err != nil || p.Number != 1 {
				t.Errorf("Propose = %+v, %v, want number 1", p, err)
			}
		})
	}
	wg.Wait()
}

// Whoever has a fork can open merge requests from a branch of the same name. The host never
// mistakes them for ours, however many there are.
func TestRequestsFromForksAreNotOurs(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	s.branchOff(t, "emco/f", "f")
	for range 120 {
		if err := s.ForkRequest(project, "emco/f", "main"); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := s.host.Proposal(t.Context(), s.repo, "emco/f", "main"); !errs.Is(err, errs.NotFound) {
		t.Errorf("Proposal = %+v, %v, want NotFound", p, err)
	}
	if p, err := s.host.Propose(t.Context(), s.repo, "emco/f", "main", change); err != nil || p.Number != 121 {
		t.Errorf("Propose = %+v, %v, want number 121", p, err)
	}
}

func TestWhatCannotBeProposed(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	s.AddToken(gitlabtest.Token{Value: "reporter", Scopes: []string{"api"}, Level: gitlabtest.Reporter})
	s.branchOff(t, "emco/f", "f")
	for _, c := range []struct {
		name, from, into string
		repo             git.Repo
		kind             errs.Kind
	}{
		{"a branch into itself", "main", "main", s.repo, errs.Invalid},
		{"a branch that is not there", "none", "main", s.repo, errs.Invalid},
		{"a branch that cannot be", "a..b", "main", s.repo, errs.Invalid},
		{"by a reporter", "emco/f", "main", s.as("reporter"), errs.Forbidden},
		{"without a token", "emco/f", "main", s.as(""), errs.Unauthorized},
	} {
		if p, err := s.host.Propose(t.Context(), c.repo, c.from, c.into, change); !errs.Is(err, c.kind) {
			t.Errorf("%s: Propose = %+v, %v of kind %v, want %v", c.name, p, err, errs.KindOf(err), c.kind)
		}
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	s := seeded(t)
	at, err := s.host.Head(t.Context(), s.repo, "main")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []git.StatusState{git.StatusPending, git.StatusPending, git.StatusSuccess, git.StatusSuccess, git.StatusFailure} {
		m := git.CommitStatus{Name: "emco/sync", State: state, Text: strings.Repeat("ü", 300), URL: "https://emco.example/d/1"}
		if err := s.host.SetStatus(t.Context(), s.repo, at, m); err != nil {
			t.Errorf("Mark %s: %v", state, err)
		}
	}
	got, _, err := s.keeper(t).Commits.GetCommitStatuses(project, string(at), nil)
	if err != nil || len(got) != 1 || got[0].Status != "failed" || got[0].Name != "emco/sync" || got[0].TargetURL != "https://emco.example/d/1" {
		t.Errorf("statuses %+v, %v, want one that failed", got, err)
	}
	none := git.Hash(strings.Repeat("0", 40))
	if err := s.host.SetStatus(t.Context(), s.repo, none, git.CommitStatus{Name: "n", State: git.StatusSuccess}); !errs.Is(err, errs.NotFound) {
		t.Errorf("Mark of no commit: %v, want NotFound", err)
	}
	if err := s.host.SetStatus(t.Context(), s.repo, at, git.CommitStatus{Name: "n", State: "odd"}); !errs.Is(err, errs.Invalid) {
		t.Errorf("Mark with an odd state: %v, want Invalid", err)
	}
}

var _ interface {
	git.Host
	git.Proposer
	git.StatusSetter
	git.LogReader
	git.BranchReader
	git.Replacer
	git.HistoryReader
	git.BlobsReader
	git.DerivedWriter
	git.BranchResetter
} = (*gitlab.Host)(nil)
