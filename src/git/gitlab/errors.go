package gitlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	api "gitlab.com/gitlab-org/api/client-go"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// maxWait bounds how long a server may ask us to wait.
const maxWait = time.Hour

var errNotAPI = errors.New("the answer is not one of GitLab's API; is its address right, and is there a login page or a proxy in front of it?")

// answerError classifies an error of the client. One without an answer stays unchanged.
func answerError(resp *api.Response, err error) error {
	if resp == nil || resp.Response == nil {
		return err
	}
	code := resp.StatusCode
	if code < 300 {
		return errs.E(errs.Unavailable, "", "", errors.New("the answer cannot be read: "+err.Error()))
	}
	kind := kindOf(resp.Response)
	cause := fmt.Errorf("GitLab answers %d %s%s", code, http.StatusText(code), reasonOf(err))
	return &errs.Error{Kind: kind, Err: cause, After: waitOf(resp.Response, time.Now())}
}

// kindOf maps statuses to kinds.
func kindOf(resp *http.Response) errs.Kind {
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && resp.Header.Get("Retry-After") != "":
		return errs.Throttled
	case code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		return errs.Unauthorized
	case code == http.StatusForbidden:
		return errs.Forbidden
	case code == http.StatusNotFound, code == http.StatusGone:
		return errs.NotFound
	case code == http.StatusMethodNotAllowed, code == http.StatusNotAcceptable, code == http.StatusConflict, code == http.StatusPreconditionFailed:
		return errs.Conflict // a merge request that is not in the state for it
	case code == http.StatusRequestEntityTooLarge:
		return errs.TooLarge
	case code >= 500, code == http.StatusRequestTimeout:
		return errs.Unavailable
	}
	return errs.Invalid
}

// reasonOf returns GitLab's reason, without its brackets; nothing of pages for people.
func reasonOf(err error) string {
	answer, ok := errors.AsType[*api.ErrorResponse](err)
	if !ok || len(answer.Body) == 0 {
		return ""
	}
	if answer.Response != nil && isJSON(answer.Response) {
		return reasonIn(answer.Body)
	}
	if strings.HasPrefix(answer.Response.Header.Get("Content-Type"), "text/plain") {
		return ": " + strings.TrimSpace(string(answer.Body[:min(len(answer.Body), 500)]))
	}
	return ""
}

// reasonIn finds the reason in an answer: {"message": …}, or {"error": …, "error_description": …}
// about the token.
func reasonIn(body []byte) string {
	var a struct {
		Message json.RawMessage `json:"message"`
		Error   string          `json:"error"`
		Why     string          `json:"error_description"`
		Scope   string          `json:"scope"`
	}
	if json.Unmarshal(body, &a) != nil {
		return ""
	}
	text := a.Error
	if len(a.Message) > 0 {
		text = strings.Trim(string(a.Message), `"`)
	}
	for _, more := range []string{a.Why, a.Scope} {
		if more != "" {
			text += ", " + more
		}
	}
	if text == "" {
		return ""
	}
	return ": " + text
}

// waitOf returns how long GitLab must not be called; a minute if it throttles without a time.
func waitOf(resp *http.Response, now time.Time) time.Duration {
	after, asked := transport.RetryAfter(resp.Header.Get("Retry-After"))
	kind := kindOf(resp)
	switch {
	case kind != errs.Throttled && kind != errs.Unavailable:
		return 0
	case asked:
		return after
	case kind == errs.Unavailable:
		return 0
	}
	if reset, ok := headerNumber(resp, "RateLimit-Reset"); ok {
		if until := time.Unix(int64(reset), 0).Sub(now); until > 0 {
			return min(until, maxWait)
		}
	}
	return after
}

// rateStatusOf reads the rate limit of a credential from the headers.
func rateStatusOf(resp *http.Response, now time.Time) (s git.RateStatus) {
	limit, limited := headerNumber(resp, "RateLimit-Limit")
	left, counted := headerNumber(resp, "RateLimit-Remaining")
	if limited && counted {
		s.Limit, s.Remaining = limit, left
		if reset, ok := headerNumber(resp, "RateLimit-Reset"); ok {
			s.Reset = time.Unix(int64(reset), 0)
		}
	}
	if pause := waitOf(resp, now); pause > 0 {
		s.Until = now.Add(pause)
	}
	return s
}

func headerNumber(resp *http.Response, header string) (int, bool) {
	n, err := strconv.Atoi(resp.Header.Get(header))
	return n, err == nil && n >= 0
}
