package plain

import (
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	logBytes     = 64 << 20 // of commits, unpacked; some hundred thousand of them
	historyBytes = 16 << 20 // of commits for one History
	logDepth     = 5000     // commits back, from a server that sends all that they hold
	firstDepth   = 100      // commits back where no base is given
)

// Since returns the commits since base. The request names base as known, so the server sends only
// later commits, without their content if it can leave that out.
func (h *Host) Since(ctx context.Context, r git.Repo, commit, base git.Hash) (git.Log, error) {
	q, err := logRequest(commit, base)
	if err != nil || commit == base {
		return git.Log{Grown: true}, err
	}
	found, err := h.fetchCommits(ctx, r, q, logBytes)
	if _, ok := found[commit]; err == nil && !ok && base == "" {
		err = errs.E(errs.NotFound, "log", "", errors.New("not a commit")) // with a base, that came after it
	}
	if err != nil {
		return git.Log{}, h.fail(ctx, r, "log", err)
	}
	return git.NewLog(commit, base, found), nil
}

// History returns the parents of commits.
func (h *Host) History(ctx context.Context, r git.Repo, commit git.Hash, depth int) (map[git.Hash][]git.Hash, error) {
	id, err := parseHash(commit)
	if err != nil {
		return nil, err
	}
	found, err := h.fetchCommits(ctx, r, fetchRequest{want: []plumbing.Hash{id}, depth: max(1, depth), commitsOnly: true}, historyBytes)
	if _, ok := found[commit]; err == nil && !ok {
		err = errs.E(errs.NotFound, "history", "", errors.New("not a commit"))
	}
	if err != nil {
		return nil, h.fail(ctx, r, "history", err)
	}
	parents := make(map[git.Hash][]git.Hash, len(found))
	for id, c := range found {
		parents[id] = c.Parents
	}
	return parents, nil
}

// fetchCommits fetches commits, at most budget bytes of them, from a server that cannot leave out
// their content at most logDepth back.
func (h *Host) fetchCommits(ctx context.Context, r git.Repo, q fetchRequest, budget int64) (map[git.Hash]git.Commit, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	c, err := h.open(ctx, r, uploadPack)
	if err != nil {
		return nil, err
	}
	if !c.has(capability.Filter) && !q.shallow && q.depth == 0 {
		q.depth = logDepth
	}
	found := map[git.Hash]git.Commit{}
	p := &packReader{
		keep: func(o gitObject) {
			if o.kind == plumbing.CommitObject {
				commit := git.ReadCommit(git.Hash(o.id.String()), o.content)
				found[commit.ID] = commit
			}
		},
		budget: budget,
	}
	_, err = h.receive(ctx, c, q, p)
	c.close(err == nil)
	return found, h.fail(ctx, r, "log", err)
}

func logRequest(commit, base git.Hash) (q fetchRequest, err error) {
	id, err := parseHash(commit)
	if err != nil {
		return q, err
	}
	q = fetchRequest{want: []plumbing.Hash{id}, commitsOnly: true}
	if base == "" {
		q.depth = firstDepth
		return q, nil
	}
	id, err = parseHash(base)
	q.have = []plumbing.Hash{id}
	return q, err
}
