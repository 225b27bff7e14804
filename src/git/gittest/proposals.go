package gittest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Proposals are the pull requests of a real repository, for servers that have none. The
// branches that they are about must be there.
type Proposals struct {
	Bare Bare

	mu  sync.Mutex
	all []*testProposal // guarded by mu
}

type testProposal struct {
	git.Proposal
	from, into string
}

// Propose opens a pull request, or brings the open one up to date.
func (s *Proposals) Propose(ctx context.Context, _ git.Repo, from, into string, _ git.Message) (git.Proposal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	head, err := s.Bare.Tip(from)
	if err != nil {
		return git.Proposal{}, errs.E(errs.NotFound, "propose", from, err)
	}
	p := s.last(from, into)
	if p == nil || p.State != git.ProposalOpen {
		n := len(s.all) + 1
		p = &testProposal{from: from, into: into}
		p.Number, p.URL, p.State = int64(n), fmt.Sprintf("https://forge.example.org/pull/%d", n), git.ProposalOpen
		s.all = append(s.all, p)
	}
	p.Head = git.Hash(head)
	return p.Proposal, nil
}

// Proposal returns the newest pull request from one branch into another.
func (s *Proposals) Proposal(_ context.Context, _ git.Repo, from, into string) (git.Proposal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.last(from, into); p != nil {
		return p.Proposal, nil
	}
	return git.Proposal{}, errs.New(errs.NotFound, "nothing was proposed")
}

func (s *Proposals) last(from, into string) *testProposal {
	for i := len(s.all) - 1; i >= 0; i-- {
		if s.all[i].from == from && s.all[i].into == into {
			return s.all[i]
		}
	}
	return nil
}

// Count returns how many pull requests there are.
func (s *Proposals) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// Forget loses all pull requests.
func (s *Proposals) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}

// Close refuses the newest pull request.
func (s *Proposals) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[len(s.all)-1].State = git.ProposalClosed
}

// Merge takes what the newest pull request has: by a commit with two parents, or squashed.
func (s *Proposals) Merge(ctx context.Context, squash bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.all[len(s.all)-1]
	out, err := s.Bare.Git(ctx, "", "merge-tree", "--write-tree", p.into, p.from)
	if err != nil {
		return err
	}
	tree, _, _ := strings.Cut(out, "\n")
	args := []string{"commit-tree", tree, "-m", "take it", "-p", p.into}
	if !squash {
		args = append(args, "-p", p.from)
	}
	commit, err := s.Bare.Git(ctx, "", args...)
	if err != nil {
		return err
	}
	p.State, p.Merged = git.ProposalMerged, git.Hash(commit)
	_, err = s.Bare.Git(ctx, "", "update-ref", "refs/heads/"+p.into, commit)
	return err
}

// Protect makes a repository refuse pushes to a branch, in its own words, and let other
// branches leave their history.
func (b Bare) Protect(ctx context.Context, branch, words string) error {
	if err := b.Config(ctx, "receive.denyNonFastForwards", "false"); err != nil {
		return err
	}
	return b.Hook("update", fmt.Sprintf("test \"$1\" != 'refs/heads/%s' || { echo '%s' >&2; exit 1; }", branch, words))
}
