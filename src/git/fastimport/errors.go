package fastimport

import (
	"errors"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// explain gives a failed run with a server a kind: by what an HTTP server has answered, else by
// what the program said.
func explain(err error, last answer) error {
	failed, ok := errors.AsType[*programError](err)
	if !ok {
		return err
	}
	if strings.Contains(failed.said, "returned error: 3") {
		return errs.E(errs.Forbidden, "", "", errors.New("the server redirects elsewhere; register the new URL"))
	}
	if refusal := last.refusal(failed); refusal != nil {
		return refusal
	}
	return errs.E(kindOfWords(failed.said), "", "", failed)
}

// kindOfWords reads a kind out of what the git program says, and what it has servers say.
func kindOfWords(said string) errs.Kind {
	low := strings.ToLower(said)
	for _, c := range []struct {
		kind  errs.Kind
		words []string
	}{
		{errs.Unauthorized, []string{"could not read username", "could not read password", "authentication failed", "permission denied ("}},
		{errs.Forbidden, []string{"host key verification failed", "transport '"}},
		{errs.TooLarge, []string{"died of signal 25"}}, // of a file above the limit
		{errs.Unavailable, []string{"could not resolve", "couldn't resolve", "failed to connect", "connection refused", "timed out", "could not connect", "valid: is this a git repository", "server does not support", "early eof", "unexpected disconnect", "hung up"}},
	} {
		for _, w := range c.words {
			if strings.Contains(low, w) {
				return c.kind
			}
		}
	}
	return transport.KindOfMessage(said)
}
