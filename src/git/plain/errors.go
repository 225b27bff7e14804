package plain

import (
	"context"
	"errors"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// remoteError is what the server said in plain words; scrub it before it is shown.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return e.text }

// malformed is for bytes that are not what the protocol says. Trying again may help
// where a proxy or a dying server cut them, so it is Unavailable.
func malformed(what string) error {
	return errs.E(errs.Unavailable, "read", "", errors.New(what+" is malformed"))
}

// fail classifies an error of a conversation and clears its text of credentials.
// Errors that are classified already keep their kind and gain the operation.
func (h *Host) fail(ctx context.Context, r git.Repo, op string, err error) error {
	if _, known := errors.AsType[*errs.Error](err); known {
		return transport.Fail(ctx, r, op, err)
	}
	if line, ok := errors.AsType[*pktline.ErrorLine](err); ok {
		err = &remoteError{text: line.Text}
	}
	if said, ok := errors.AsType[*remoteError](err); ok {
		err = errs.E(kindOfWords(said.text), "", "", said)
	}
	return transport.Fail(ctx, r, op, err)
}

// kindOfWords reads a kind out of what servers say; the protocol has no codes.
func kindOfWords(text string) errs.Kind {
	text = strings.ToLower(text)
	holds := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	switch {
	case holds("not our ref", "not found", "does not exist", "does not appear", "no such", "not a valid object", "unadvertised object"):
		return errs.NotFound
	case holds("fsck", "hasdot", "fullpathname", "nullsha1", "badtree", "malformed"):
		return errs.Invalid
	case holds("exceeds maximum", "too large", "exceeds github", "larger than"):
		return errs.TooLarge
	case holds("authentication failed", "invalid credentials", "could not authenticate"):
		return errs.Unauthorized
	case holds("denied", "permission", "not allowed", "forbidden", "archived", "read-only", "read only"):
		return errs.Forbidden
	}
	return errs.Unavailable
}
