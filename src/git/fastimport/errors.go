package fastimport

import (
	"errors"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// explain gives a failed run with a server a kind, by what the program said.
func (j *job) explain(err error) error {
	failed, ok := errors.AsType[*programError](err)
	if !ok {
		return err
	}
	if strings.Contains(failed.said, "returned error: 3") {
		return errs.E(errs.Forbidden, "", "", errors.New("the server redirects elsewhere; register the new URL"))
	}
	kind := kindOfWords(failed.said)
	if kind == errs.Throttled {
		wait, _ := transport.RetryAfter("")
		return errs.Throttle("", "", wait, failed)
	}
	return errs.E(kind, "", "", failed)
}

// kindOfWords reads a kind out of what the git program says, and what it has servers say.
func kindOfWords(said string) errs.Kind {
	low := strings.ToLower(said)
	for _, c := range []struct {
		kind  errs.Kind
		words []string
	}{
		{errs.Throttled, []string{"returned error: 429"}},
		{errs.Unauthorized, []string{"could not read username", "could not read password", "authentication failed", "permission denied (", "returned error: 401"}},
		{errs.Forbidden, []string{"host key verification failed", "returned error: 403", "transport '"}},
		{errs.NotFound, []string{"returned error: 404", "returned error: 410"}},
		{errs.TooLarge, []string{"returned error: 413", "died of signal 25"}}, // of a file above the limit
		{errs.Unavailable, []string{"returned error: 5", "could not resolve", "couldn't resolve", "failed to connect", "connection refused", "timed out", "could not connect", "valid: is this a git repository", "server does not support", "early eof", "unexpected disconnect", "hung up"}},
	} {
		for _, w := range c.words {
			if strings.Contains(low, w) {
				return c.kind
			}
		}
	}
	return transport.KindOfWords(said)
}
