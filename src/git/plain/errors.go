package plain

import (
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// remoteError is a message of the server; it may hold secrets until it is redacted.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return e.text }

// malformed is the error of bytes that break the protocol. It is Unavailable, since a proxy or a
// dying server may have cut them.
func malformed(what string) error {
	return errs.E(errs.Unavailable, "read", "", errors.New(what+" is malformed"))
}

// fail classifies an error of a conversation and redacts it. Errors with a kind keep it and gain
// the operation.
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
