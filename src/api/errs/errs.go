// Package errs gives errors that cross packages a kind, so that callers branch on kinds
// and never on text. Status maps a kind to an HTTP status, FromStatus maps a status back to a kind.
package errs

import (
	"errors"
	"strings"
	"time"
)

// Kind is the kind of an error. Its name is stable, its number is not.
type Kind uint8

// The kinds. The zero kind, Internal, is that of unclassified errors.
const (
	Internal      Kind = iota // a bug or a broken part of ours; clients see "internal error"
	Malformed                 // the body could not be decoded
	Invalid                   // decoded, but breaks a rule
	NotFound                  // the named thing does not exist
	Exists                    // a thing of that name exists already
	Conflict                  // the state does not allow it, or someone else was faster
	TooLarge                  // above a limit
	Unauthorized              // the client has no valid credential
	Forbidden                 // the client may not do this
	NotAcceptable             // no representation that the client accepts
	Throttled                 // come back later; see RetryAfter
	Unavailable               // a dependency does not respond; a retry may help
)

var names = [...]string{
	"internal", "malformed", "invalid", "not found", "exists", "conflict", "too large",
	"unauthorized", "forbidden", "not acceptable", "throttled", "unavailable",
}

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Error carries what failed: the kind, the operation, its subject and the cause.
// Op and Subject may be empty; the text omits them then.
type Error struct {
	Kind    Kind
	Op      string        // what was tried: "delete", "push"
	Subject string        // on what: a key, a URL without credentials
	Err     error         // why; its text is the message
	After   time.Duration // until a retry; zero if it is not known
}

// E builds an error. err must not be nil.
func E(kind Kind, op, subject string, err error) error {
	return &Error{Kind: kind, Op: op, Subject: subject, Err: err}
}

// New builds an error with the text msg alone, for messages that clients compare.
func New(kind Kind, msg string) error {
	return &Error{Kind: kind, Err: errors.New(msg)}
}

// Throttle builds a Throttled error with the time until a retry.
func Throttle(op, subject string, after time.Duration, err error) error {
	return &Error{Kind: Throttled, Op: op, Subject: subject, Err: err, After: after}
}

// Error returns "op subject: cause" with the empty parts left out.
func (e *Error) Error() string {
	head := strings.TrimSpace(e.Op + " " + e.Subject)
	if head == "" {
		return e.Err.Error()
	}
	return head + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost classified error in err's chain, and
// Internal when there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is of kind k. A nil error is of no kind.
func Is(err error, k Kind) bool {
	return err != nil && KindOf(err) == k
}

// RetryAfter returns the time until a retry that the error names; zero if it names none.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.After
	}
	return 0
}
