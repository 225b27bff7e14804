package plain

import (
	"bytes"
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// historyBytes bounds the commits that one question about history may bring; they have
// some hundred bytes each.
const historyBytes = 16 << 20

// Contains says whether one commit came after another one.
func (h *Host) Contains(ctx context.Context, r git.Repo, commit, ancestor git.Hash, depth int) (bool, error) {
	from, err := parseHash(commit)
	if err != nil {
		return false, err
	}
	to, err := parseHash(ancestor)
	if err != nil || from == to {
		return from == to, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	c, err := h.open(ctx, r, uploadPack)
	if err != nil {
		return false, err
	}
	found, known := false, false
	p := &packReader{
		base: func(plumbing.Hash) (object, bool) { return object{}, false },
		keep: func(o object) {
			if o.kind == plumbing.CommitObject {
				known = known || o.id == from
				found = found || o.id == to || hasParent(o.content, to)
			}
		},
		budget: historyBytes,
	}
	_, err = h.receive(ctx, c, request{want: []plumbing.Hash{from}, depth: depth, commitsOnly: true}, p)
	c.close(err == nil)
	if err == nil && !known {
		err = errs.E(errs.NotFound, "history", "", errors.New("not a commit"))
	}
	return found, h.fail(ctx, r, "history", err)
}

// hasParent reads the first lines of a commit.
func hasParent(commit []byte, id plumbing.Hash) bool {
	head, _, _ := bytes.Cut(commit, []byte("\n\n"))
	return bytes.Contains(head, []byte("\nparent "+id.String()))
}
