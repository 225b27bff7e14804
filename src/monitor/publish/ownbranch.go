package publish

import (
	"context"
	"log/slog"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/git"
)

// Author is the author of commits.
const Author = "EMCO monitor <monitor@localhost>"

// Host is the part of a Git host that OwnBranch needs.
type Host interface {
	git.Host
	git.BranchReader
	git.Replacer
}

// Repository returns the repository with its current credential.
type Repository func() (git.Repo, error)

// OwnBranch writes to the cluster's own branch: one commit with one file. It keeps no history,
// because only the last report is read: it replaces the commit that it saw by a new one
// without parents, by compare-and-swap. On a server that refuses this it appends commits.
type OwnBranch struct {
	host   Host
	repo   Repository
	branch string
	limit  int
	log    *slog.Logger

	seq        sequence
	tipKnown   bool // tip is the head of the branch
	tip        git.Hash
	appendOnly bool // the server refuses to replace commits
}

// NewOwnBranch returns a writer to the branch of a cluster. limit bounds a report in bytes;
// 0 means status.MaxSize.
func NewOwnBranch(h Host, repo Repository, prefix, cluster string, limit int, log *slog.Logger) *OwnBranch {
	return &OwnBranch{host: h, repo: repo, branch: status.Branch(prefix, cluster), limit: limit, log: log}
}

// Write commits a report to the branch. If the branch has moved, which only another process
// of this agent may do, it tries once more.
func (b *OwnBranch) Write(ctx context.Context, r status.Report) error {
	repo, err := b.repo()
	if err != nil {
		return err
	}
	for range 2 {
		if err = b.try(ctx, repo, r); !errs.Is(err, errs.Conflict) {
			return err
		}
	}
	return err
}

func (b *OwnBranch) try(ctx context.Context, repo git.Repo, r status.Report) error {
	if err := b.readTip(ctx, repo); err != nil {
		return err
	}
	r.Seq = b.seq.next(time.Now())
	text, err := status.Encode(r, b.limit)
	if err != nil {
		return err
	}
	m := git.Message{Title: "status of " + r.Cluster, Author: Author}
	b.tipKnown = false // until the server has confirmed the new commit
	tip, err := b.move(ctx, repo, text, m)
	if err == nil {
		b.tip, b.tipKnown = tip, true
	}
	return err
}

// move moves the branch to a new commit, in the way that the server allows.
func (b *OwnBranch) move(ctx context.Context, repo git.Repo, text []byte, m git.Message) (git.Hash, error) {
	if !b.appendOnly {
		tip, err := b.host.Replace(ctx, repo, b.branch, b.tip, map[string][]byte{status.File: text}, m)
		if !errs.Is(err, errs.Forbidden) || b.tip == "" {
			return tip, err
		}
	}
	tip, err := b.host.Commit(ctx, repo, b.branch, b.tip, []git.Edit{{Path: status.File, File: text}}, m)
	if err == nil && !b.appendOnly {
		b.appendOnly = true
		b.log.Warn("the server refuses force pushes, so each report adds a commit; allow force pushes on this branch", "branch", b.branch)
	}
	return tip, err
}

// readTip reads the head of the branch and the last sequence.
func (b *OwnBranch) readTip(ctx context.Context, repo git.Repo) error {
	if b.tipKnown {
		return nil
	}
	found, err := b.host.Branches(ctx, repo, b.branch, func(name string, _ git.Hash) bool { return name == b.branch },
		git.Limit{Object: status.MaxSize, Files: 16})
	if err != nil {
		return err
	}
	at := found[b.branch]
	b.tip, b.tipKnown = at.Commit, true
	if r, err := status.Decode(at.Files[status.File]); err == nil {
		b.seq.atLeast(r.Seq)
	} else if at.Commit != "" {
		b.log.Warn("cannot read the last report; replacing it", "branch", b.branch, "err", err)
	}
	return nil
}
