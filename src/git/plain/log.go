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
	logBytes   = 64 << 20 // of commits, unpacked; some hundred thousand of them
	logDepth   = 5000     // commits back, from a server that sends all that they hold
	firstDepth = 100      // commits back where no base is given
)

// Since returns the commits since base. The request names base as known, so the server sends only
// later commits, without their content if it can leave that out.
func (h *Host) Since(ctx context.Context, r git.Repo, commit, base git.Hash) (git.Log, error) {
	q, err := logRequest(commit, base)
	if err != nil || commit == base {
		return git.Log{Grown: true}, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	c, err := h.open(ctx, r, uploadPack)
	if err != nil {
		return git.Log{}, err
	}
	if !c.has(capability.Filter) && q.depth == 0 {
		q.depth = logDepth
	}
	found := map[git.Hash]git.Commit{}
	p := &packReader{
		base: func(plumbing.Hash) (object, bool) { return object{}, false },
		keep: func(o object) {
			if o.kind == plumbing.CommitObject {
				c := git.ReadCommit(git.Hash(o.id.String()), o.content)
				found[c.ID] = c
			}
		},
		budget: logBytes,
	}
	_, err = h.receive(ctx, c, q, p)
	c.close(err == nil)
	if _, ok := found[commit]; err == nil && !ok && base == "" {
		err = errs.E(errs.NotFound, "log", "", errors.New("not a commit")) // else base came after it
	}
	if err != nil {
		return git.Log{}, h.fail(ctx, r, "log", err)
	}
	return git.NewLog(commit, base, found), nil
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
