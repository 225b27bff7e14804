package github

import (
	"context"
	"errors"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github/internal/api"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

const (
	perPage  = 100
	maxPages = 10 // of commits; a log that is longer is TooLarge
)

// Since returns what was committed since base.
func (h *Host) Since(ctx context.Context, r git.Repo, commit, base git.Hash) (git.Log, error) {
	_, err := tree.ParseID(commit)
	if err == nil && base != "" {
		_, err = tree.ParseID(base)
	}
	repo, err := h.open(r, err)
	switch {
	case err != nil:
		return git.Log{}, err
	case commit == base:
		return git.Log{Grown: true}, nil
	case base == "":
		found, _, err := repo.commits(ctx, commit, 1)
		return git.NewLog(commit, base, found), notConflict(err)
	}
	found, grown, err := repo.compare(ctx, commit, base)
	if errs.Is(err, errs.NotFound) { // of base, or they have nothing in common
		var whole bool
		if found, whole, err = repo.commits(ctx, commit, maxPages); err == nil && !whole {
			err = repo.tooLong()
		}
	}
	if err != nil {
		return git.Log{}, notConflict(err)
	}
	log := git.NewLog(commit, base, found)
	log.Grown = grown
	return log, nil
}

// Latest returns the newest commits of a history, with one call for each hundred.
func (h *Host) Latest(ctx context.Context, r git.Repo, commit git.Hash, n int) ([]git.Commit, error) {
	_, err := tree.ParseID(commit)
	repo, err := h.open(r, err)
	if err != nil {
		return nil, err
	}
	found, _, err := repo.commits(ctx, commit, (n+perPage-1)/perPage)
	if err != nil {
		return nil, notConflict(err)
	}
	all := git.NewLog(commit, "", found).Commits
	return all[:min(n, len(all))], nil
}

// compare returns the commits that commit has and base has not, and whether base is in its history.
// It returns NotFound if either is missing, or they have no common ancestor.
func (repo *repository) compare(ctx context.Context, commit, base git.Hash) (found map[git.Hash]git.Commit, grown bool, err error) {
	found = map[git.Hash]git.Commit{}
	for page := 1; page != 0; {
		if page > maxPages {
			return nil, false, repo.tooLong()
		}
		err := repo.Call(ctx, "log", api.ReadCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
			part, resp, err := c.Repositories.CompareCommits(ctx, repo.Owner, repo.Name, string(base), string(commit), &gh.ListOptions{Page: page, PerPage: perPage})
			if err != nil {
				return resp, err
			}
			collect(found, part.Commits)
			grown = part.GetBehindBy() == 0 && (part.GetStatus() == "ahead" || part.GetStatus() == "identical")
			page = resp.NextPage
			return resp, nil
		})
		if err != nil {
			return nil, false, err
		}
	}
	return found, grown, nil
}

// commits returns the newest commits of a history, and whether these are all.
func (repo *repository) commits(ctx context.Context, commit git.Hash, pages int) (found map[git.Hash]git.Commit, whole bool, err error) {
	found = map[git.Hash]git.Commit{}
	for page := 1; page <= pages && !whole; page++ {
		err := repo.Call(ctx, "log", api.ReadCost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
			part, resp, err := c.Repositories.ListCommits(ctx, repo.Owner, repo.Name, &gh.CommitsListOptions{SHA: string(commit), ListOptions: gh.ListOptions{Page: page, PerPage: perPage}})
			if err == nil {
				collect(found, part)
				whole = resp.NextPage == 0
			}
			return resp, err
		})
		if err != nil {
			return nil, false, err
		}
	}
	if _, ok := found[commit]; !ok {
		return nil, false, errs.E(errs.NotFound, "log", repo.URL, errors.New("not a commit"))
	}
	return found, whole, nil
}

func (repo *repository) tooLong() error {
	return errs.E(errs.TooLarge, "log", repo.URL, errors.New("too many commits to list"))
}

func collect(found map[git.Hash]git.Commit, part []*gh.RepositoryCommit) {
	for _, c := range part {
		one := git.Commit{ID: git.Hash(c.GetSHA()), Message: c.GetCommit().GetMessage()}
		if by := c.GetCommit().GetAuthor(); by != nil {
			one.Author = by.GetName() + " <" + by.GetEmail() + ">"
		}
		if by := c.GetCommit().GetCommitter(); by != nil {
			one.When = by.GetDate().UTC()
		}
		one.Signed = c.GetCommit().GetVerification().GetSignature() != ""
		for _, p := range c.Parents {
			one.Parents = append(one.Parents, git.Hash(p.GetSHA()))
		}
		found[one.ID] = one
	}
}
