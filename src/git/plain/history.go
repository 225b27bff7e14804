package plain

import (
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// historyBytes bounds the commits that one question about history may bring; they have
// some hundred bytes each.
const historyBytes = 16 << 20

// History returns the parents of commits.
func (h *Host) History(ctx context.Context, r git.Repo, commit git.Hash, depth int) (map[git.Hash][]git.Hash, error) {
	id, err := parseHash(commit)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	c, err := h.open(ctx, r, uploadPack)
	if err != nil {
		return nil, err
	}
	found := map[git.Hash][]git.Hash{}
	p := &packReader{
		base: func(plumbing.Hash) (object, bool) { return object{}, false },
		keep: func(o object) {
			if o.kind == plumbing.CommitObject {
				c := git.ReadCommit(git.Hash(o.id.String()), o.content)
				found[c.ID] = c.Parents
			}
		},
		budget: historyBytes,
	}
	_, err = h.receive(ctx, c, fetchRequest{want: []plumbing.Hash{id}, depth: max(1, depth), commitsOnly: true}, p)
	c.close(err == nil)
	if _, ok := found[commit]; err == nil && !ok {
		err = errs.E(errs.NotFound, "history", "", errors.New("not a commit"))
	}
	return found, h.fail(ctx, r, "history", err)
}
