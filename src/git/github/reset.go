package github

import (
	"context"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github/internal/api"
)

// ResetBranch moves a branch. The API has no compare-and-swap for a branch that leaves its history:
// its head is read right before, which leaves a short race.
func (h *Host) ResetBranch(ctx context.Context, r git.Repo, m git.BranchReset) (git.Hash, error) {
	repo, err := h.open(r, git.CheckBranch(m.Branch), git.CheckEdits(m.Edits))
	if err != nil || m.From == m.Onto && len(m.Edits) == 0 {
		return m.Onto, err
	}
	w := &commitWriter{repository: repo, branch: m.Branch, parent: m.Onto, base: m.Onto, expected: &m.From, message: m.Message}
	if len(m.Edits) > 0 {
		id, err := w.commit(ctx, m.Edits)
		if err != nil || id != m.Onto || id == m.From {
			return id, blamePath(err, m.Edits)
		}
	}
	if err := w.Spend(ctx, "reset", api.Plus(api.WriteCost, api.ReadCost)); err != nil {
		return "", err
	}
	return m.Onto, w.moveBranch(ctx, m.Onto)
}
