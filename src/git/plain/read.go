package plain

import (
	"context"
	"errors"
	"iter"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/fetch"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/treecache"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// Head returns the commit that branch points at.
func (h *Host) Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error) {
	if err := git.CheckBranch(branch); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	id, err := h.client.Head(ctx, r, branch)
	return hashOf(id), err
}

// Tree lists the files below a path at a commit. The trees come from memory if the commit is
// cached; the iteration itself makes no requests.
func (h *Host) Tree(ctx context.Context, r git.Repo, at git.Hash, under string) iter.Seq2[git.Entry, error] {
	return func(yield func(git.Entry, error) bool) {
		if under != "" {
			if err := git.CheckPath(under); err != nil {
				yield(git.Entry{}, err)
				return
			}
		}
		s, err := h.snapshot(ctx, r, at)
		if err == nil {
			err = s.Walk(under, func(e git.Entry) bool { return ctx.Err() == nil && yield(e, nil) })
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil && !errors.Is(err, treecache.ErrStopped) {
			yield(git.Entry{}, transport.Fail(ctx, r, "tree", err))
		}
	}
}

// Blob returns a file's content.
func (h *Host) Blob(ctx context.Context, r git.Repo, id git.Hash) ([]byte, error) {
	want, err := parseHash(id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	content, err := fetch.Blob(ctx, h.client, r, want)
	return content, transport.Fail(ctx, r, "blob", err)
}

// Blobs reads several files at once.
func (h *Host) Blobs(ctx context.Context, r git.Repo, ids []git.Hash, limit int64) (map[git.Hash][]byte, error) {
	want := make([]plumbing.Hash, len(ids))
	for i, id := range ids {
		var err error
		if want[i], err = parseHash(id); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	found, err := fetch.Blobs(ctx, h.client, r, want, limit)
	return found, transport.Fail(ctx, r, "blobs", err)
}

// Branches lists branches and fetches some of them.
func (h *Host) Branches(ctx context.Context, r git.Repo, prefix string, want func(string, git.Hash) bool, limit git.Limit) (map[string]git.Branch, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	found, err := fetch.Branches(ctx, h.client, r, prefix, want, limit)
	return found, transport.Fail(ctx, r, "fetch", err)
}

// Since returns the commits since base.
func (h *Host) Since(ctx context.Context, r git.Repo, commit, base git.Hash) (git.Log, error) {
	to, err := parseHash(commit)
	if err != nil || commit == base {
		return git.Log{Grown: true}, err
	}
	var from plumbing.Hash
	if base != "" {
		if from, err = parseHash(base); err != nil {
			return git.Log{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	found, err := fetch.Since(ctx, h.client, r, to, from)
	if err != nil {
		return git.Log{}, transport.Fail(ctx, r, "log", err)
	}
	return git.NewLog(commit, base, found), nil
}

// Latest returns the newest commits of a history.
func (h *Host) Latest(ctx context.Context, r git.Repo, commit git.Hash, n int) ([]git.Commit, error) {
	found, err := h.history(ctx, r, commit, n)
	if err != nil {
		return nil, err
	}
	all := git.NewLog(commit, "", found).Commits
	return all[:min(n, len(all))], nil
}

// history returns a commit and its ancestors, depth commits back.
func (h *Host) history(ctx context.Context, r git.Repo, commit git.Hash, depth int) (map[git.Hash]git.Commit, error) {
	id, err := parseHash(commit)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	found, err := fetch.History(ctx, h.client, r, id, depth)
	return found, transport.Fail(ctx, r, "history", err)
}

// History returns the parents of commits.
func (h *Host) History(ctx context.Context, r git.Repo, commit git.Hash, depth int) (map[git.Hash][]git.Hash, error) {
	found, err := h.history(ctx, r, commit, depth)
	if err != nil {
		return nil, err
	}
	parents := make(map[git.Hash][]git.Hash, len(found))
	for id, c := range found {
		parents[id] = c.Parents
	}
	return parents, nil
}

// Changed returns the paths that differ between two commits. Commits that are not cached are fetched,
// without files and without cached trees.
func (h *Host) Changed(ctx context.Context, r git.Repo, d git.Difference) ([]string, error) {
	before := treecache.Nothing()
	var err error
	if d.Before != "" {
		if before, err = h.snapshot(ctx, r, d.Before); err != nil {
			return nil, err
		}
	}
	after, err := h.snapshot(ctx, r, d.After)
	if err != nil {
		return nil, err
	}
	paths, err := treecache.Changed(before, after, d.Under, d.Limit)
	return paths, transport.Fail(ctx, r, "compare", err)
}
