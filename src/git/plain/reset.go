package plain

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// ResetBranch moves a branch, by compare-and-swap with its current head.
func (h *Host) ResetBranch(ctx context.Context, r git.Repo, m git.BranchReset) (git.Hash, error) {
	if err := errors.Join(git.CheckBranch(m.Branch), git.CheckEdits(m.Edits), h.checkURL(r)); err != nil {
		return "", firstOf(err)
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	at := refUpdate{branch: m.Branch}
	var err error
	if at.to, err = parseHash(m.Onto); err != nil {
		return "", err
	}
	if m.From != "" {
		if at.from, err = parseHash(m.From); err != nil {
			return "", err
		}
	}
	if len(m.Edits) == 0 {
		return git.Hash(at.to.String()), h.moveToKnown(ctx, r, at, m)
	}
	d, err := h.draft(ctx, r, m.Onto, m.Edits, m.Message)
	if err != nil {
		return "", err
	}
	if !d.changes() {
		return d.head(), h.moveToKnown(ctx, r, at, m)
	}
	p := pushRequest{updates: []refUpdate{{branch: m.Branch, from: at.from, to: d.commit}}, objs: d.change.objs, bytes: d.change.bytes, guard: m.Message.Guard}
	if err := h.push(ctx, r, p); err != nil {
		return "", err
	}
	h.remember(r, d)
	return d.head(), nil
}

// moveToKnown moves a branch to a commit that the server has.
func (h *Host) moveToKnown(ctx context.Context, r git.Repo, at refUpdate, m git.BranchReset) error {
	if at.from == at.to {
		return nil
	}
	err := h.push(ctx, r, pushRequest{updates: []refUpdate{at}, guard: m.Message.Guard})
	if errs.Is(err, errs.Conflict) && at.from != plumbing.ZeroHash && !h.moved(ctx, r, at) {
		return errs.E(errs.NotFound, "move", r.URL, fmt.Errorf("the server no longer has commit %s", at.to))
	}
	return err
}
