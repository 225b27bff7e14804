package github

import (
	"context"
	"errors"
	"strings"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github/internal/api"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

const (
	maxMarkText = 140 // characters of a commit status
	maxTitle    = 256 // characters of a pull request's title
)

// Propose opens a pull request, or brings the one that is open up to date.
func (h *Host) Propose(ctx context.Context, r git.Repo, from, into string, m git.Message) (git.Proposal, error) {
	repo, err := h.open(r, git.CheckBranch(from), git.CheckBranch(into))
	if err != nil {
		return git.Proposal{}, err
	}
	last, err := repo.newestPull(ctx, from, into)
	if err != nil {
		return git.Proposal{}, err
	}
	title, body, _ := strings.Cut(m.Text(), "\n")
	title, body = truncate(title, maxTitle), strings.TrimSpace(body)
	switch {
	case last == nil || stateOf(last) != git.ProposalOpen:
		last, err = repo.openPull(ctx, &gh.NewPullRequest{Title: &title, Body: &body, Head: &from, Base: &into})
	case last.GetTitle() != title || strings.TrimSpace(strings.ReplaceAll(last.GetBody(), "\r\n", "\n")) != body:
		err = repo.Call(ctx, "propose", api.WriteCost, func(ctx context.Context, c *gh.Client) (resp *gh.Response, err error) {
			last, resp, err = c.PullRequests.Edit(ctx, repo.Owner, repo.Name, last.GetNumber(), &gh.PullRequest{Title: &title, Body: &body})
			return resp, err
		})
	}
	if err != nil {
		return git.Proposal{}, err
	}
	return proposalOf(last), nil
}

// openPull opens a pull request. If someone else was faster, theirs is returned.
func (repo *repository) openPull(ctx context.Context, p *gh.NewPullRequest) (made *gh.PullRequest, err error) {
	err = repo.Call(ctx, "propose", api.WriteCost, func(ctx context.Context, c *gh.Client) (resp *gh.Response, err error) {
		made, resp, err = c.PullRequests.Create(ctx, repo.Owner, repo.Name, p)
		return resp, err
	})
	if !errs.Is(err, errs.Exists) {
		return made, err
	}
	last, err := repo.newestPull(ctx, p.GetHead(), p.GetBase())
	if err == nil && last == nil {
		err = errs.E(errs.Conflict, "propose", repo.URL, errors.New("the server reports an open pull request and lists none"))
	}
	return last, err
}

// Proposal returns the newest pull request from one branch into another.
func (h *Host) Proposal(ctx context.Context, r git.Repo, from, into string) (git.Proposal, error) {
	repo, err := h.open(r, git.CheckBranch(from), git.CheckBranch(into))
	if err != nil {
		return git.Proposal{}, err
	}
	last, err := repo.newestPull(ctx, from, into)
	if err != nil {
		return git.Proposal{}, err
	}
	if last == nil {
		return git.Proposal{}, errs.E(errs.NotFound, "proposal", r.URL, errors.New("no pull request from "+from+" into "+into))
	}
	return proposalOf(last), nil
}

// newestPull returns the newest pull request from one branch into another, nil without any.
func (repo *repository) newestPull(ctx context.Context, from, into string) (last *gh.PullRequest, err error) {
	o := &gh.PullRequestListOptions{
		State: "all", Head: repo.Owner + ":" + from, Base: into, Sort: "created", Direction: "desc", ListOptions: gh.ListOptions{PerPage: 1},
	}
	err = repo.Call(ctx, "proposal", api.ReadCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		found, resp, err := c.PullRequests.List(ctx, repo.Owner, repo.Name, o)
		if len(found) > 0 {
			last = found[0]
		}
		return resp, err
	})
	return last, err
}

func stateOf(p *gh.PullRequest) git.ProposalState {
	switch {
	case p.GetState() == "open":
		return git.ProposalOpen
	case p.MergedAt != nil:
		return git.ProposalMerged
	}
	return git.ProposalClosed
}

func proposalOf(p *gh.PullRequest) git.Proposal {
	out := git.Proposal{URL: p.GetHTMLURL(), Number: int64(p.GetNumber()), State: stateOf(p), Head: git.Hash(p.GetHead().GetSHA())}
	if out.State == git.ProposalMerged {
		out.Merged = git.Hash(p.GetMergeCommitSHA())
	}
	return out
}

// SetStatus sets a commit status.
func (h *Host) SetStatus(ctx context.Context, r git.Repo, commit git.Hash, m git.CommitStatus) error {
	_, err := tree.ParseID(commit)
	repo, err := h.open(r, err)
	if err != nil {
		return err
	}
	text := truncate(m.Text, maxMarkText)
	s := &gh.RepoStatus{State: gh.String(string(m.State)), Context: &m.Name, Description: &text}
	if m.URL != "" {
		s.TargetURL = &m.URL
	}
	return repo.Call(ctx, "set status", api.WriteCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		_, resp, err := c.Repositories.CreateStatus(ctx, repo.Owner, repo.Name, string(commit), s)
		return resp, err
	})
}

// truncate shortens a text to so many characters.
func truncate(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
