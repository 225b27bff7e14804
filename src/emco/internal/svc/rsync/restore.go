package rsync

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git"
)

// RestoringHost is what putting a branch back needs of Git hosts.
type RestoringHost interface {
	git.LogReader
	git.BranchResetter
	Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error)
}

// restore puts a branch back to the commit that was written to it last. The head that was
// looked at is replaced, and no other: what somebody pushes meanwhile is not lost.
func (h History) restore(w http.ResponseWriter, r *http.Request) error {
	ask, err := asked(w, r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	if held, err := h.held(ctx, ask); err != nil || held {
		return h.judge(w, r, ruling{ask, false}, err)
	}
	b, err := h.Contexts.Branch(ctx, ask.URL, ask.Branch)
	if err != nil {
		return err
	}
	if b.Commit == "" {
		return cannot(ask, "its history was adopted, so no commit is remembered that it could be put back to")
	}
	repo, err := h.repo(ctx, ask)
	if err != nil {
		return err
	}
	lost, err := h.putBack(ctx, repo, b)
	if err != nil {
		return err
	}
	if b, err = h.Contexts.Restored(ctx, ask.URL, ask.Branch); err != nil {
		return err
	}
	h.Log.Info("history of a branch restored", "repo", b.URL, "branch", b.Name, "commit", b.Commit, "instead", lost, "actor", web.Actor(ctx))
	return web.JSON(w, http.StatusAccepted, shown(b))
}

func cannot(ask v2.GitBranch, why string) error {
	return errs.E(errs.Conflict, "restore", "branch "+ask.Branch+" of "+ask.URL, errors.New(why))
}

// putBack moves a branch to the commit that it should hold, unless it holds it. It returns
// where the branch was.
func (h History) putBack(ctx context.Context, repo git.Repo, b appcontext.Branch) (git.Hash, error) {
	ours := git.Hash(b.Commit)
	head, err := h.Git.Head(ctx, repo, b.Name)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return "", err
	}
	if head != "" {
		log, err := h.Git.Since(ctx, repo, head, ours)
		if err != nil && !errs.Is(err, errs.TooLarge) {
			return "", err
		}
		if log.Grown || head == ours {
			return "", cannot(shown(b), "it holds commit "+b.Commit+", so its history was not rewritten")
		}
	}
	_, err = h.Git.ResetBranch(ctx, repo, git.BranchReset{Branch: b.Name, From: head, Onto: ours})
	switch {
	case errs.Is(err, errs.NotFound):
		return "", cannot(shown(b), "the server does not have commit "+b.Commit+" any more; push it from a clone that has it, or adopt the history")
	case errs.Is(err, errs.Forbidden):
		return "", errs.E(errs.Forbidden, "restore", "branch "+b.Name+" of "+b.URL,
			fmt.Errorf("%w; allow it on the server, put the branch back by hand, or adopt the history", err))
	}
	return head, err
}

// repo finds a repository's credential: that of a cluster that is fed by the branch.
func (h History) repo(ctx context.Context, ask v2.GitBranch) (git.Repo, error) {
	clusters := (&route.Resolver{DB: h.DB, Rules: h.Rules}).Lookup()
	for c, err := range clusters.Fed(ctx) {
		if err != nil {
			return git.Repo{}, err
		}
		if c.Err == nil && c.Settings.Repo.URL == ask.URL && c.Settings.Branch == ask.Branch {
			return c.Settings.Repo, nil
		}
	}
	return git.Repo{}, cannot(ask, "no cluster is fed by it any more, so there is no credential")
}
