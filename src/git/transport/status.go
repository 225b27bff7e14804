package transport

import (
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// StatusError classifies an HTTP answer other than the expected one, by its status and the header
// Retry-After, which may be empty. People see the cause.
func StatusError(code int, retryAfter string, cause error) error {
	wait, asked := RetryAfter(retryAfter)
	switch {
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && asked:
		return errs.Throttle("", "", wait, cause)
	case code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		return errs.E(errs.Unauthorized, "", "", cause)
	case code == http.StatusForbidden:
		return errs.E(errs.Forbidden, "", "", cause)
	case code == http.StatusNotFound, code == http.StatusGone:
		return errs.E(errs.NotFound, "", "", cause)
	case code == http.StatusRequestEntityTooLarge:
		return errs.E(errs.TooLarge, "", "", cause)
	case code >= 300 && code < 500 && code != http.StatusRequestTimeout:
		return errs.E(errs.Invalid, "", "", cause)
	}
	if !asked {
		wait = 0
	}
	return &errs.Error{Kind: errs.Unavailable, Err: cause, After: wait}
}
