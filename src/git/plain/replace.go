package plain

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Replace moves a branch to a commit without parents.
func (h *Host) Replace(ctx context.Context, r git.Repo, branch string, old git.Hash, files map[string][]byte, m git.Message) (git.Hash, error) {
	var edits []git.Edit
	for _, path := range slices.Sorted(maps.Keys(files)) {
		edits = append(edits, git.Edit{Path: path, File: append([]byte{}, files[path]...)})
	}
	if err := errors.Join(git.CheckBranch(branch), git.CheckEdits(edits), h.checkURL(r)); err != nil {
		return "", firstOf(err)
	}
	if len(edits) == 0 {
		return "", errs.E(errs.Invalid, "replace", r.URL, errors.New("a commit of no files"))
	}
	from := plumbing.ZeroHash
	if old != "" {
		var err error
		if from, err = parseHash(old); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	c, err := newTreeChange(commitTrees{store: newStore()}, edits)
	if err != nil {
		return "", h.fail(ctx, r, "replace", err)
	}
	id, err := c.addCommit(c.root, plumbing.ZeroHash, m)
	if err != nil {
		return "", h.fail(ctx, r, "replace", err)
	}
	if err := h.push(ctx, r, pushOfBranch(branch, from, c, m.Guard)); err != nil {
		return "", err
	}
	return git.Hash(id.String()), nil
}
