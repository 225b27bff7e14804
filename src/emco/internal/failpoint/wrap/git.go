package wrap

import (
	"context"
	"iter"

	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Host returns the Git host with points around its methods.
func Host(s *failpoint.Set, h git.Host) git.Host {
	logs, hasLogs := h.(git.LogReader)
	views, hasViews := h.(git.DerivedWriter)
	switch {
	case hasLogs && hasViews:
		return viewHost{logHost{host{h, s}, logs}, views}
	case hasLogs:
		return logHost{host{h, s}, logs}
	}
	return host{h, s}
}

// logHost is a host that has logs.
type logHost struct {
	host
	git.LogReader
}

// viewHost is a host that keeps derived branches as well.
type viewHost struct {
	logHost
	views git.DerivedWriter
}

// CommitDerived moves a branch, and derived branches with it.
func (h viewHost) CommitDerived(ctx context.Context, r git.Repo, s git.DerivedUpdate) (git.DerivedResult, error) {
	var shown git.DerivedResult
	pushing := func(point string) error { return at(ctx, h.set, point, "push", r.URL) }
	err := between(pushing, GitCommitBefore, GitCommitAfter, func() (err error) {
		shown, err = h.views.CommitDerived(ctx, r, s)
		return err
	})
	if err != nil {
		return git.DerivedResult{}, err
	}
	return shown, nil
}

type host struct {
	git.Host
	set *failpoint.Set
}

// Head returns the tip of a branch.
func (h host) Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error) {
	if err := at(ctx, h.set, GitHeadBefore, "fetch", r.URL); err != nil {
		return "", err
	}
	head, err := h.Host.Head(ctx, r, branch)
	if err != nil {
		return "", err
	}
	return head, at(ctx, h.set, GitHeadAfter, "fetch", r.URL)
}

// Tree lists files. It fails before the first.
func (h host) Tree(ctx context.Context, r git.Repo, commit git.Hash, under string) iter.Seq2[git.Entry, error] {
	return func(yield func(git.Entry, error) bool) {
		if err := at(ctx, h.set, GitRead, "fetch", r.URL); err != nil {
			yield(git.Entry{}, err)
			return
		}
		h.Host.Tree(ctx, r, commit, under)(yield)
	}
}

// Blob reads a file.
func (h host) Blob(ctx context.Context, r git.Repo, id git.Hash) ([]byte, error) {
	if err := at(ctx, h.set, GitRead, "fetch", r.URL); err != nil {
		return nil, err
	}
	return h.Host.Blob(ctx, r, id)
}

// Commit moves a branch.
func (h host) Commit(ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
	var commit git.Hash
	pushing := func(point string) error { return at(ctx, h.set, point, "push", r.URL) }
	err := between(pushing, GitCommitBefore, GitCommitAfter, func() (err error) {
		commit, err = h.Host.Commit(ctx, r, branch, parent, edits, m)
		return err
	})
	if err != nil {
		return "", err
	}
	return commit, nil
}

// Writer accepts jobs for branches, as batch.Writers does.
type Writer interface {
	Submit(ctx context.Context, j batch.Job) (git.Hash, error)
}

// Commits returns the writer with a point before its answer is recorded.
func Commits(s *failpoint.Set, w Writer) Writer { return commitHost{w, s} }

type commitHost struct {
	Writer
	set *failpoint.Set
}

// Submit waits until the edits are on the branch.
func (c commitHost) Submit(ctx context.Context, j batch.Job) (git.Hash, error) {
	commit, err := c.Writer.Submit(ctx, j)
	if err != nil {
		return commit, err
	}
	if err := at(ctx, c.set, GitAnswer, "write", j.Repo.URL); err != nil {
		return "", err
	}
	return commit, nil
}
