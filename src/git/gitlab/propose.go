package gitlab

import (
	"context"
	"errors"
	"fmt"
	"strings"

	api "gitlab.com/gitlab-org/api/client-go"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	maxTitle = 255 // characters that GitLab takes
	perPage  = 50
	maxPages = 10 // of merge requests between the same branches
)

// Propose opens a merge request, or updates the open one. One from a fork is not ours, whatever its
// branch is called.
func (h *Host) Propose(ctx context.Context, r git.Repo, from, into string, m git.Message) (git.Proposal, error) {
	if err := checkBranches(from, into); err != nil {
		return git.Proposal{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	a, err := h.client(ctx, r, "propose")
	if err != nil {
		return git.Proposal{}, err
	}
	mr, err := a.newest(ctx, from, into, "opened")
	if errs.Is(err, errs.NotFound) {
		mr, err = a.open(ctx, from, into, m)
	} else if err == nil {
		mr, err = a.update(ctx, mr, m)
	}
	if err != nil {
		return git.Proposal{}, err
	}
	return h.proposal(ctx, r, mr)
}

// Proposal returns the newest merge request from one branch into another.
func (h *Host) Proposal(ctx context.Context, r git.Repo, from, into string) (git.Proposal, error) {
	if err := checkBranches(from, into); err != nil {
		return git.Proposal{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	a, err := h.client(ctx, r, "read")
	if err != nil {
		return git.Proposal{}, err
	}
	mr, err := a.newest(ctx, from, into, "all")
	if err != nil {
		return git.Proposal{}, err
	}
	return h.proposal(ctx, r, mr)
}

// newest returns the merge request in a state that was made last; NotFound if there is none.
func (a *client) newest(ctx context.Context, from, into, state string) (*api.BasicMergeRequest, error) {
	o := api.ListProjectMergeRequestsOptions{
		ListOptions: api.ListOptions{Page: 1, PerPage: perPage}, State: &state, SourceBranch: &from, TargetBranch: &into,
		OrderBy: api.Ptr("created_at"), Sort: api.Ptr("desc"),
	}
	for range maxPages {
		page, err := call(ctx, a, readCost(), func(with api.RequestOptionFunc) ([]*api.BasicMergeRequest, *api.Response, error) {
			return a.api.MergeRequests.ListProjectMergeRequests(a.address.project, &o, with)
		})
		if err != nil {
			return nil, err
		}
		for _, mr := range page {
			if mr.SourceProjectID == mr.TargetProjectID {
				return mr, nil
			}
		}
		if len(page) < perPage {
			return nil, a.errorOf(errs.NotFound, fmt.Sprintf("no merge request from %s into %s", from, into))
		}
		o.Page++
	}
	return nil, a.errorOf(errs.TooLarge, fmt.Sprintf("more than %d merge requests from forks have a branch %s", maxPages*perPage, from))
}

// open makes a merge request. If someone else was faster, that one is returned.
func (a *client) open(ctx context.Context, from, into string, m git.Message) (*api.BasicMergeRequest, error) {
	title, description := texts(m)
	mr, err := call(ctx, a, writeCost(), func(with api.RequestOptionFunc) (*api.MergeRequest, *api.Response, error) {
		return a.api.MergeRequests.CreateMergeRequest(a.address.project, &api.CreateMergeRequestOptions{
			Title: &title, Description: &description, SourceBranch: &from, TargetBranch: &into,
		}, with)
	})
	if errs.Is(err, errs.Conflict) {
		return a.newest(ctx, from, into, "opened")
	}
	if err != nil {
		return nil, err
	}
	return &mr.BasicMergeRequest, nil
}

// update gives a merge request the text of a message, if it has another.
func (a *client) update(ctx context.Context, old *api.BasicMergeRequest, m git.Message) (*api.BasicMergeRequest, error) {
	title, description := texts(m)
	if old.Title == title && old.Description == description {
		return old, nil
	}
	mr, err := call(ctx, a, writeCost(), func(with api.RequestOptionFunc) (*api.MergeRequest, *api.Response, error) {
		return a.api.MergeRequests.UpdateMergeRequest(a.address.project, old.IID, &api.UpdateMergeRequestOptions{
			Title: &title, Description: &description,
		}, with)
	})
	if err != nil {
		return nil, err
	}
	return &mr.BasicMergeRequest, nil
}

func (a *client) errorOf(kind errs.Kind, why string) error {
	return errs.E(kind, a.op, a.repo.URL, errors.New(why))
}

// texts returns title and description of a message. The trailers are a block of code, so that
// GitLab finds no commands and no names of people in them.
func texts(m git.Message) (title, description string) {
	title, trailers, _ := strings.Cut(strings.TrimSpace(m.Text()), "\n")
	if trailers = strings.TrimSpace(trailers); trailers != "" {
		description = "```\n" + trailers + "\n```"
	}
	return truncate(title, maxTitle), description
}

// truncate shortens a text to so many characters.
func truncate(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// proposal converts a merge request. GitLab learns the head of a new one a moment after Git; then
// the branch is read.
func (h *Host) proposal(ctx context.Context, r git.Repo, mr *api.BasicMergeRequest) (git.Proposal, error) {
	p := git.Proposal{URL: mr.WebURL, Number: mr.IID, State: git.ProposalOpen, Head: git.Hash(mr.SHA)}
	switch mr.State {
	case "merged":
		p.State, p.Merged = git.ProposalMerged, mergedBy(mr)
	case "closed":
		p.State = git.ProposalClosed
	}
	if p.Head != "" || p.State != git.ProposalOpen {
		return p, nil
	}
	head, err := h.Head(ctx, r, mr.SourceBranch)
	p.Head = head
	return p, err
}

// mergedBy returns the commit of a merge: the merge commit, the squash commit, or, in projects
// without either, the head of its branch.
func mergedBy(mr *api.BasicMergeRequest) git.Hash {
	for _, id := range []string{mr.MergeCommitSHA, mr.SquashCommitSHA} {
		if id != "" {
			return git.Hash(id)
		}
	}
	return git.Hash(mr.SHA)
}
