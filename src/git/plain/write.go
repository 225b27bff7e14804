package plain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/treecache"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/wire"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// Commit puts one commit on top of parent and moves branch from parent to it.
func (h *Host) Commit(ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
	if err := firstOf(git.CheckBranch(branch), git.CheckEdits(edits), h.checkURL(r)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	d, err := h.draft(ctx, r, parent, edits, m)
	if err != nil {
		return "", err
	}
	if !d.changes() {
		return parent, nil
	}
	if err := h.push(ctx, r, d.push(branch, d.base.Commit, m)); err != nil {
		return "", err
	}
	h.remember(r, d)
	return hashOf(d.head()), nil
}

// Replace moves a branch to a commit without parents.
func (h *Host) Replace(ctx context.Context, r git.Repo, branch string, old git.Hash, files map[string][]byte, m git.Message) (git.Hash, error) {
	var edits []git.Edit
	for _, path := range slices.Sorted(maps.Keys(files)) {
		edits = append(edits, git.Edit{Path: path, File: append([]byte{}, files[path]...)})
	}
	if err := firstOf(git.CheckBranch(branch), git.CheckEdits(edits), h.checkURL(r)); err != nil {
		return "", err
	}
	if len(edits) == 0 {
		return "", errs.E(errs.Invalid, "replace", r.URL, errors.New("a commit of no files"))
	}
	var from plumbing.Hash
	if old != "" {
		var err error
		if from, err = parseHash(old); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	d, err := h.draft(ctx, r, "", edits, m)
	if err != nil {
		return "", err
	}
	if err := h.push(ctx, r, d.push(branch, from, m)); err != nil {
		return "", err
	}
	return hashOf(d.head()), nil
}

// ResetBranch moves a branch, by compare-and-swap with its current head.
func (h *Host) ResetBranch(ctx context.Context, r git.Repo, m git.BranchReset) (git.Hash, error) {
	if err := firstOf(git.CheckBranch(m.Branch), git.CheckEdits(m.Edits), h.checkURL(r)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	var err error
	at := wire.RefUpdate{Branch: m.Branch}
	if at.To, err = parseHash(m.Onto); err != nil {
		return "", err
	}
	if m.From != "" {
		if at.From, err = parseHash(m.From); err != nil {
			return "", err
		}
	}
	if len(m.Edits) == 0 {
		return m.Onto, h.moveToKnown(ctx, r, at, m.Message)
	}
	d, err := h.draft(ctx, r, m.Onto, m.Edits, m.Message)
	if err != nil {
		return "", err
	}
	if !d.changes() {
		return m.Onto, h.moveToKnown(ctx, r, at, m.Message)
	}
	if err := h.push(ctx, r, d.push(m.Branch, at.From, m.Message)); err != nil {
		return "", err
	}
	h.remember(r, d)
	return hashOf(d.head()), nil
}

// moveToKnown moves a branch to a commit that the server has.
func (h *Host) moveToKnown(ctx context.Context, r git.Repo, at wire.RefUpdate, m git.Message) error {
	if at.From == at.To {
		return nil
	}
	err := h.push(ctx, r, wire.PushRequest{Updates: []wire.RefUpdate{at}, Guard: m.Guard})
	if errs.Is(err, errs.Conflict) && !at.From.IsZero() && !h.client.Moved(ctx, r, at.Branch, at.From) {
		return errs.E(errs.NotFound, "reset", r.URL, fmt.Errorf("the server no longer has commit %s", at.To))
	}
	return err
}

// draft applies edits to a commit, in memory. An empty parent is the state before a first commit.
func (h *Host) draft(ctx context.Context, r git.Repo, parent git.Hash, edits []git.Edit, m git.Message) (*commitDraft, error) {
	base := treecache.Nothing()
	if parent != "" {
		var err error
		if base, err = h.snapshot(ctx, r, parent); err != nil {
			return nil, err
		}
	}
	d, err := newDraft(base, edits, m)
	if err != nil && !errors.Is(err, git.ErrDryRun) {
		err = transport.Fail(ctx, r, "commit", err)
	}
	return d, err
}

// remember caches a draft that was pushed.
func (h *Host) remember(r git.Repo, d *commitDraft) {
	h.caches.Get(r).Add(d.base, d.commit, d.root, d.objects)
}
