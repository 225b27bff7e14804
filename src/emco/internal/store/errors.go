package store

import (
	"errors"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Reasons to refuse a write because of another document. The error is a Conflict (upstream EMCO answers
// 409 to all of them); errors.Is finds the reason, and errors.As a *Related that names the
// other document.
var (
	ErrNoParent    = errors.New("no parent")     // create: the parent does not exist or is being deleted
	ErrNoTarget    = errors.New("no target")     // create, replace: a required reference does not exist, or any is being deleted
	ErrHasChildren = errors.New("has children")  // delete: there are documents below
	ErrReferenced  = errors.New("is referenced") // delete: another document refers to this one
)

// Related names the other document because of which a write is refused.
type Related struct {
	Reason error // one of the reasons above
	Key    Key   // the parent, the target, the first child or the first holder
	text   string
}

// Error returns the reason in words, with the key.
func (r *Related) Error() string { return r.text }

// Unwrap returns the reason.
func (r *Related) Unwrap() error { return r.Reason }

// related builds the Conflict; format has one %s for the other document.
func related(op string, k Key, reason error, other Key, format string) error {
	return errs.E(errs.Conflict, op, string(k),
		&Related{Reason: reason, Key: other, text: fmt.Sprintf(format, other)})
}

var (
	errAbsent = errors.New("not found")
	errThere  = errors.New("exists already")
	errGoing  = errors.New("is being deleted, try again")
	errBusy   = errors.New("many are changing it at once, try again")

	// errLost means, within the package, that another writer was faster; callers start over and
	// never return it.
	errLost = errors.New("lost a race")
)

func notFound(op string, k Key) error { return errs.E(errs.NotFound, op, string(k), errAbsent) }
func conflict(op string, k Key, why error) error {
	return errs.E(errs.Conflict, op, string(k), why)
}

func invalid(op string, k Key, why string) error {
	return errs.E(errs.Invalid, op, string(k), errors.New(why))
}

// NotFoundAs replaces the text of a NotFound error; other errors, and nil, stay as they are.
func NotFoundAs(err error, text string) error {
	if errs.Is(err, errs.NotFound) {
		return errs.New(errs.NotFound, text)
	}
	return err
}
