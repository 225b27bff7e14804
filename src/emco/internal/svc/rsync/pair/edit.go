package pair

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// DescribeEdit describes an edit by others, for people.
func DescribeEdit(e appcontext.ExternalEdit) string {
	what := e.Paths[0]
	if n := len(e.Paths) - 1 + e.More; n > 0 {
		what += fmt.Sprintf(" and %d more", n)
	}
	then := "it is written over"
	if e.Held {
		then = "it is held until an operator adopts or restores the branch"
	}
	return fmt.Sprintf("%s changed %s in commit %s; %s", cmp.Or(e.Author, "someone else"), what, e.Commit[:min(len(e.Commit), 12)], then)
}

// heldEdit is the error of a target that is not written because an edit in it is held.
type heldEdit struct{ edit appcontext.ExternalEdit }

// Error names the author, the file, the commit and the remedy.
func (h *heldEdit) Error() string { return ExternalEdit + ": " + DescribeEdit(h.edit) }

// HeldError returns the error for a held edit.
func HeldError(e appcontext.ExternalEdit) error {
	return errs.E(errs.Forbidden, "write", e.Paths[0], &heldEdit{e})
}

// HeldEditOf returns the error for the first held edit among pairs of one target.
func HeldEditOf(pairs []appcontext.Pair) error {
	for _, p := range pairs {
		if p.Edit != nil && p.Edit.Held {
			return HeldError(*p.Edit)
		}
	}
	return nil
}

// isExternalEdit reports whether an error is about an edit by others.
func isExternalEdit(err error) bool {
	_, held := errors.AsType[*heldEdit](err)
	return held || errors.Is(err, batch.ErrExternalEdit)
}

// editAfterDelivery returns an edit after a delivery: once, with the commit that replaced it.
func editAfterDelivery(e *appcontext.ExternalEdit, commit string) *appcontext.ExternalEdit {
	if e == nil || e.Undone != "" {
		return nil
	}
	out := *e
	out.Held, out.Kept, out.Undone = false, false, commit
	return &out
}

// ResolveEdit ends the hold on a pair's edit: with keep the edit stays until the next
// delivery, else it is written over.
func ResolveEdit(p appcontext.Pair, keep bool) appcontext.Pair {
	if p.Edit != nil {
		e := *p.Edit
		e.Kept, e.Held = keep && e.Held, false
		p.Edit = &e
	}
	p = Reset(p)
	if keep && p.Change == "" && p.Desired == p.Applied {
		p.Phase, p.From = appcontext.Applied, ""
	}
	return p
}
