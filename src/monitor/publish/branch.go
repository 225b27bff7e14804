package publish

import (
	"context"
	"log/slog"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/git"
)

// Author is who commits.
const Author = "EMCO monitor <monitor@localhost>"

// Host is what is needed of Git.
type Host interface {
	git.Host
	git.BranchReader
	git.Replacer
}

// Repository returns the repository with its credential, which may have changed since
// the last time.
type Repository func() (git.Repo, error)

// Branch writes to the cluster's own branch: one commit that holds one file. It does not
// grow a history, of which nobody would read more than its end; it moves the branch from
// the commit that it saw to a new one without parents, and never from one that it did
// not see. On servers that refuse that it puts commits on top of each other.
type Branch struct {
	host   Host
	repo   Repository
	branch string
	limit  int
	log    *slog.Logger

	seq        sequence
	tipKnown   bool // tip is where the branch is
	tip        git.Hash
	appendOnly bool // the server takes only commits on top of a branch
}

// NewBranch returns a writer to the branch of a cluster. limit bounds a report in bytes;
// 0 means status.MaxSize.
func NewBranch(h Host, repo Repository, prefix, cluster string, limit int, log *slog.Logger) *Branch {
	return &Branch{host: h, repo: repo, branch: status.Branch(prefix, cluster), limit: limit, log: log}
}

// Write puts a report onto the branch. Somebody else who moved it meanwhile, another
// process of this agent at most, is overtaken once.
func (b *Branch) Write(ctx context.Context, r status.Report) error {
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

func (b *Branch) try(ctx context.Context, repo git.Repo, r status.Report) error {
	if err := b.readTip(ctx, repo); err != nil {
		return err
	}
	r.Seq = b.seq.next(time.Now())
	text, err := status.Encode(r, b.limit)
	if err != nil {
		return err
	}
	m := git.Message{Title: "status of " + r.Cluster, Author: Author}
	b.tipKnown = false // until it is sure that the branch is at the new commit
	tip, err := b.move(ctx, repo, text, m)
	if err == nil {
		b.tip, b.tipKnown = tip, true
	}
	return err
}

// move moves the branch in the way that the server allows.
func (b *Branch) move(ctx context.Context, repo git.Repo, text []byte, m git.Message) (git.Hash, error) {
	if !b.appendOnly {
		tip, err := b.host.Replace(ctx, repo, b.branch, b.tip, map[string][]byte{status.File: text}, m)
		if !errs.Is(err, errs.Forbidden) || b.tip == "" {
			return tip, err
		}
	}
	tip, err := b.host.Commit(ctx, repo, b.branch, b.tip, []git.Edit{{Path: status.File, File: text}}, m)
	if err == nil && !b.appendOnly {
		b.appendOnly = true
		b.log.Warn("the server lets branches only grow: the history of reports will be long; allow force pushes on this branch", "branch", b.branch)
	}
	return tip, err
}

// readTip finds out where the branch is, and which number was used last.
func (b *Branch) readTip(ctx context.Context, repo git.Repo) error {
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
		b.log.Warn("the last report cannot be read; it is replaced", "branch", b.branch, "err", err)
	}
	return nil
}
