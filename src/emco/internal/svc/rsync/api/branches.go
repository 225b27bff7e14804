// Package api serves the requests that only rsync can answer: kubeconfigs for users of logical clouds, whose
// certificates the clusters sign, the list of Git branches, and decisions of operators about these. Adopt keeps what
// others did to a branch, and restore undoes it. If edits are held, the decision is about these; otherwise it is
// about a rewritten history. Any process answers, and resets the branch if a rewritten history is restored; the
// shard that writes the branch does the rest.
package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 16 << 10

// Branches serves decisions about branches.
type Branches struct {
	Contexts *appcontext.Store
	DB       *store.DB
	Rules    syncobjects.Rules
	Git      GitHost
	Log      *slog.Logger
}

// GitHost is what a restore needs of Git hosts.
type GitHost interface {
	git.LogReader
	git.BranchResetter
	Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error)
}

// Mount adds the routes.
func (a Branches) Mount(r *mux.Router) {
	web.Handle(r, http.MethodGet, "/v2/git/branches", authz.Permission{Verb: authz.List, Type: "branches"}, a.list)
	web.Handle(r, http.MethodPost, "/v2/git/adopt", authz.Permission{Verb: authz.Act("adopt"), Type: "branches"}, web.WithDryRun(a.adopt))
	web.Handle(r, http.MethodPost, "/v2/git/restore", authz.Permission{Verb: authz.Act("restore"), Type: "branches"}, web.WithDryRun(a.restore))
}

// list answers all branches that were written, in order.
func (a Branches) list(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	out := []v2.GitBranch{}
	for b, err := range a.Contexts.Branches(r.Context()) {
		if err != nil {
			return err
		}
		out = append(out, document(b))
	}
	slices.SortFunc(out, func(a, b v2.GitBranch) int {
		return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.Branch, b.Branch))
	})
	return web.JSON(w, http.StatusOK, out)
}

func document(b gitstate.Branch) v2.GitBranch {
	return v2.GitBranch{URL: b.URL, Branch: b.Name, Commit: b.Commit}
}

// readBranch reads which branch a request is about.
func readBranch(w http.ResponseWriter, r *http.Request) (b v2.GitBranch, err error) {
	body, err := web.Body(w, r, maxBody)
	if err != nil {
		return b, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return b, errs.New(errs.Malformed, "the body is not as {\"url\": …, \"branch\": …}: "+err.Error())
	}
	if b.URL == "" || b.Branch == "" || b.Commit != "" {
		return b, errs.New(errs.Invalid, "give url and branch, as GET /v2/git/branches lists them, and nothing else")
	}
	return b, nil
}

// adopt accepts a branch as it is: edits by others that are held, or else its rewritten
// history.
func (a Branches) adopt(w http.ResponseWriter, r *http.Request, dry bool) error {
	branch, err := readBranch(w, r)
	if err != nil {
		return err
	}
	held, err := a.hasHeldEdits(r.Context(), branch)
	if err != nil {
		return err
	}
	if held {
		return a.resolve(w, r, branch, true, dry)
	}
	if dry {
		b, err := a.Contexts.Branch(r.Context(), branch.URL, branch.Branch)
		if err != nil {
			return err
		}
		b.Commit = ""
		return web.JSON(w, http.StatusAccepted, document(b))
	}
	b, err := a.Contexts.Adopt(r.Context(), branch.URL, branch.Branch)
	if err != nil {
		return err
	}
	a.Log.Info("the history of a branch was adopted", "repo", b.URL, "branch", b.Name, "actor", web.Actor(r.Context()))
	return web.JSON(w, http.StatusAccepted, document(b))
}

// restore undoes what others did to a branch: edits that are held are overwritten, or else
// the branch is set back to the commit that was written last.
func (a Branches) restore(w http.ResponseWriter, r *http.Request, dry bool) error {
	branch, err := readBranch(w, r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	held, err := a.hasHeldEdits(ctx, branch)
	if err != nil {
		return err
	}
	if held {
		return a.resolve(w, r, branch, false, dry)
	}
	b, err := a.Contexts.Branch(ctx, branch.URL, branch.Branch)
	if err != nil {
		return err
	}
	if b.Commit == "" {
		return notRestored(branch, "its history was adopted, so the commit before is no longer known")
	}
	repo, err := a.repo(ctx, branch)
	if err != nil {
		return err
	}
	if dry {
		if _, err := a.checkLost(ctx, repo, b); err != nil {
			return err
		}
		return web.JSON(w, http.StatusAccepted, document(b))
	}
	replaced, err := a.setBack(ctx, repo, b)
	if err != nil {
		return err
	}
	if b, err = a.Contexts.SetRestored(ctx, branch.URL, branch.Branch); err != nil {
		return err
	}
	a.Log.Info("the history of a branch was restored", "repo", b.URL, "branch", b.Name, "commit", b.Commit, "instead", replaced, "actor", web.Actor(ctx))
	return web.JSON(w, http.StatusAccepted, document(b))
}

// hasHeldEdits reports whether edits by others are held on a branch.
func (a Branches) hasHeldEdits(ctx context.Context, branch v2.GitBranch) (bool, error) {
	lookup := a.lookup()
	for p, err := range a.Contexts.Pairs(ctx) {
		if err != nil {
			return false, err
		}
		if p.Edit == nil || !p.Edit.Held {
			continue
		}
		c, err := lookup.Registration(ctx, p.Key.Cluster)
		if err != nil {
			continue // the cluster is on no branch
		}
		s, err := lookup.Settings(ctx, p.Key.Cluster, c.GitOps)
		if err == nil && s.Repo.URL == branch.URL && s.Branch == branch.Branch {
			return true, nil
		}
	}
	return false, nil
}

// resolve stores the decision about edits that are held.
func (a Branches) resolve(w http.ResponseWriter, r *http.Request, branch v2.GitBranch, keep, dry bool) error {
	if dry {
		b, err := a.Contexts.Branch(r.Context(), branch.URL, branch.Branch)
		if err != nil {
			return err
		}
		return web.JSON(w, http.StatusAccepted, document(b))
	}
	b, err := a.Contexts.ResolveEdits(r.Context(), branch.URL, branch.Branch, keep)
	if err != nil {
		return err
	}
	a.Log.Info("held edits of a branch were resolved", "repo", b.URL, "branch", b.Name, "keep", keep, "actor", web.Actor(r.Context()))
	return web.JSON(w, http.StatusAccepted, document(b))
}

// setBack moves a branch to the commit that was written last, unless the branch contains
// it. It replaces the head that it has checked, and no other: a concurrent push is not
// lost. It returns that head.
func (a Branches) setBack(ctx context.Context, repo git.Repo, b gitstate.Branch) (git.Hash, error) {
	ours := git.Hash(b.Commit)
	head, err := a.checkLost(ctx, repo, b)
	if err != nil {
		return "", err
	}
	_, err = a.Git.ResetBranch(ctx, repo, git.BranchReset{Branch: b.Name, From: head, Onto: ours})
	switch {
	case errs.Is(err, errs.NotFound):
		return "", notRestored(document(b), "the server no longer has commit "+b.Commit+"; push it from a clone that has it, or adopt the history")
	case errs.Is(err, errs.Forbidden):
		return "", errs.E(errs.Forbidden, "restore", "branch "+b.Name+" of "+b.URL,
			fmt.Errorf("%w; allow it on the server, set the branch back by hand, or adopt the history", err))
	}
	return head, err
}

// checkLost refuses a branch that contains the commit that was written last. It returns the head
// of others, empty if they have deleted the branch.
func (a Branches) checkLost(ctx context.Context, repo git.Repo, b gitstate.Branch) (git.Hash, error) {
	ours := git.Hash(b.Commit)
	head, err := a.Git.Head(ctx, repo, b.Name)
	if errs.Is(err, errs.NotFound) || err == nil && head == "" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	log, err := a.Git.Since(ctx, repo, head, ours)
	if err != nil && !errs.Is(err, errs.TooLarge) {
		return "", err
	}
	if log.Grown || head == ours {
		return "", notRestored(document(b), "it holds commit "+b.Commit+", so its history was not rewritten")
	}
	return head, nil
}

func notRestored(b v2.GitBranch, why string) error {
	return errs.E(errs.Conflict, "restore", "branch "+b.Branch+" of "+b.URL, errors.New(why))
}

// repo returns the repository with a credential: that of a cluster that the branch feeds.
func (a Branches) repo(ctx context.Context, branch v2.GitBranch) (git.Repo, error) {
	repo, err := a.lookup().Repo(ctx, route.Branch{URL: branch.URL, Name: branch.Branch})
	if errs.Is(err, errs.NotFound) {
		err = notRestored(branch, "it no longer feeds a cluster, so its credential is unknown")
	}
	return repo, err
}

func (a Branches) lookup() *route.Lookup {
	return (&route.Resolver{DB: a.DB, Rules: a.Rules}).Lookup()
}
