package fastimport

import (
	"context"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// ResetBranch puts a branch where it is told to, with the exact commit where it is now.
func (h *Host) ResetBranch(ctx context.Context, r git.Repo, m git.BranchReset) (git.Hash, error) {
	err := check(m.Branch, m.Edits)
	if err == nil {
		_, err = tree.ParseID(m.Onto)
	}
	if err != nil {
		return "", err
	}
	j, done, err := h.begin(ctx, r, "move")
	if err != nil {
		return "", err
	}
	defer done()
	to := m.Onto
	if len(m.Edits) > 0 {
		to, err = j.commit(m.Onto, m.Edits, m.Message)
	} else if err = j.ready(); err == nil {
		err = j.open(m.Onto)
	}
	if err != nil {
		return "", j.plain(err)
	}
	if to == m.From {
		return to, nil
	}
	return to, j.plain(j.push([]move{{branch: m.Branch, from: m.From, to: to}}, m.Message.Guard))
}
