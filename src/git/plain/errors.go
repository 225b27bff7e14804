package plain

import (
	"context"
	"errors"

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
		err = errs.E(transport.KindOfMessage(said.text), "", "", said)
	}
	return transport.Fail(ctx, r, op, err)
}
