package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

const (
	shortestWait = time.Minute      // after a secondary limit without a time to come back
	longestWait  = 15 * time.Minute // of those
	longestReset = time.Hour        // until a primary limit is over
	maxLimits    = 1024             // credentials whose secondary limits are remembered
)

var (
	// ErrEmpty is the error of an empty repository, which most of the API refuses.
	ErrEmpty = errors.New("the repository is empty")
	// ErrGone is the error of a request that names an object which the server lacks.
	ErrGone = errors.New("the server lacks an object that it had")
)

// checkAnswer reads an answer: rate limits go to the budget, and a refusal becomes a classified
// error.
func (r *Repo) checkAnswer(resp *http.Response, err error) error {
	now := time.Now()
	s := rateStatusOf(resp.Header)
	wait := r.server.limits.wait(r.credentialKey(), resp, messageOf(err), now)
	if wait > 0 {
		s.Until = now.Add(wait)
	}
	if s != (git.RateStatus{}) {
		r.server.Budget.Observe(r.Repo, s)
	}
	switch {
	case wait > 0:
		return errs.Throttle("", "", wait, answerError(resp, messageOf(err)))
	case !isJSON(resp) && (resp.StatusCode < 300 && !isRaw(resp) || resp.StatusCode == http.StatusNotFound):
		return errs.E(errs.Unavailable, "", "", fmt.Errorf("the answer (%d) is not GitHub's; is the API's address right, and is there a login page or a proxy in front of it?", resp.StatusCode))
	case err == nil:
		return nil
	case resp.StatusCode < 300:
		return unreadableAnswer(err)
	}
	return refusalError(resp, err)
}

// credentialKey identifies a credential.
func (r *Repo) credentialKey() string {
	return r.base.Host + " " + r.Repo.App.ID + " " + strconv.FormatInt(r.Repo.App.Installation, 10) + " " + r.Repo.Token.Reveal()
}

// unreadableAnswer is the error of an answer that was cut or not understood.
func unreadableAnswer(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return errs.E(errs.TooLarge, "", "", fmt.Errorf("the answer has more than %d bytes", maxAnswer))
	}
	if _, later := errors.AsType[*gh.AcceptedError](err); later {
		err = errors.New("the server has not finished the answer yet")
	}
	return errs.E(errs.Unavailable, "", "", err)
}

// refusalError classifies a status above 299.
func refusalError(resp *http.Response, err error) error {
	words := messageOf(err)
	cause := answerError(resp, words)
	switch code := resp.StatusCode; code {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return errs.E(errs.Unauthorized, "", "", cause)
	case http.StatusForbidden, http.StatusUnavailableForLegalReasons:
		return errs.E(errs.Forbidden, "", "", cause)
	case http.StatusNotFound, http.StatusGone:
		return errs.E(errs.NotFound, "", "", fmt.Errorf("%w; it does not exist, or the credential may not read it", cause))
	case http.StatusConflict:
		if strings.Contains(strings.ToLower(words), "repository is empty") {
			cause = ErrEmpty
		}
		return &errs.Error{Kind: errs.Conflict, Err: cause}
	case http.StatusRequestEntityTooLarge:
		return errs.E(errs.TooLarge, "", "", cause)
	case http.StatusUnprocessableEntity:
		return unprocessable(words, cause)
	default:
		if code >= 300 && code < 500 && code != http.StatusRequestTimeout {
			return errs.E(errs.Invalid, "", "", cause)
		}
	}
	wait, _ := retryAfterOf(resp)
	return &errs.Error{Kind: errs.Unavailable, Err: cause, After: wait}
}

// unprocessable classifies status 422 by GitHub's message. That happens before the message is
// redacted, since a credential may be part of any word.
func unprocessable(words string, cause error) error {
	low := strings.ToLower(words)
	holds := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(low, w) })
	}
	switch {
	case holds("fast forward", "fast-forward", "reference already exists", "reference does not exist", "reference cannot be updated", "cannot lock"):
		return errs.E(errs.Conflict, "", "", cause)
	case holds("already exists"):
		return errs.E(errs.Exists, "", "", cause)
	case holds("badobjectstate", "is not a valid", "sha does not exist", "object does not exist", "no commit found", "could not be resolved"):
		return errs.E(errs.Conflict, "", "", ErrGone)
	case holds("too large", "exceeds"):
		return errs.E(errs.TooLarge, "", "", cause)
	}
	return errs.E(errs.Invalid, "", "", cause)
}

// answerError shows a status and the server's message.
func answerError(resp *http.Response, words string) error {
	return fmt.Errorf("the server answers %d %s", resp.StatusCode, cmp.Or(words, http.StatusText(resp.StatusCode)))
}

// messageOf returns the server's message in one text, "" without one.
func messageOf(err error) string {
	if e, ok := errors.AsType[*gh.RateLimitError](err); ok {
		return e.Message
	}
	if e, ok := errors.AsType[*gh.AbuseRateLimitError](err); ok {
		return e.Message
	}
	if e, ok := errors.AsType[*gh.TwoFactorAuthError](err); ok {
		return e.Message
	}
	e, ok := errors.AsType[*gh.ErrorResponse](err)
	if !ok {
		return ""
	}
	words := []string{e.Message}
	for _, one := range e.Errors {
		words = append(words, strings.Join(strings.Fields(one.Resource+" "+one.Field+" "+one.Code+" "+one.Message), " "))
	}
	return strings.Join(words, "; ")
}

func isJSON(resp *http.Response) bool {
	return resp.StatusCode == http.StatusNoContent || strings.Contains(resp.Header.Get("Content-Type"), "json")
}

// isRaw reports whether an answer is the content of a file.
func isRaw(resp *http.Response) bool {
	kind := resp.Header.Get("Content-Type")
	return strings.HasPrefix(kind, "application/vnd.github") || strings.HasPrefix(kind, "application/octet-stream")
}

// rateStatusOf reads the headers of the primary rate limit.
func rateStatusOf(h http.Header) (s git.RateStatus) {
	limit, err := strconv.Atoi(h.Get("X-RateLimit-Limit"))
	remaining, err2 := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	if err != nil || err2 != nil {
		return s
	}
	s.Limit, s.Remaining = limit, remaining
	if reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil {
		s.Reset = time.Unix(reset, 0)
	}
	return s
}

// retryAfterOf returns the wait that the server asks for.
func retryAfterOf(resp *http.Response) (time.Duration, bool) {
	if resp.Header.Get("Retry-After") == "" {
		return 0, false
	}
	return transport.RetryAfter(resp.Header.Get("Retry-After"))
}

// secondaryLimits counts how often in a row each credential hit a secondary rate limit without a
// time to come back.
type secondaryLimits struct {
	mu   sync.Mutex
	hits map[string]int // by credential; guarded by mu
}

// wait returns how long the credential must not be used after an answer; zero if that is not about
// a limit.
func (l *secondaryLimits) wait(key string, resp *http.Response, words string, now time.Time) time.Duration {
	code, s := resp.StatusCode, rateStatusOf(resp.Header)
	throttled := code == http.StatusTooManyRequests
	if code == http.StatusForbidden {
		_, says := retryAfterOf(resp)
		low := strings.ToLower(words)
		throttled = says || s.Limit > 0 && s.Remaining == 0 || strings.Contains(low, "rate limit") || strings.Contains(low, "abuse detection")
	}
	if !throttled {
		if code < 300 {
			l.forget(key)
		}
		return 0
	}
	if wait, says := retryAfterOf(resp); says {
		return max(wait, time.Second)
	}
	if s.Limit > 0 && s.Remaining == 0 {
		return min(max(s.Reset.Sub(now), 0), longestReset) + time.Second
	}
	return l.nextWait(key)
}

// nextWait is a minute, doubled each time.
func (l *secondaryLimits) nextWait(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hits == nil || len(l.hits) >= maxLimits {
		l.hits = map[string]int{}
	}
	n := l.hits[key]
	l.hits[key] = n + 1
	return min(shortestWait<<min(n, 8), longestWait)
}

func (l *secondaryLimits) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hits, key)
}
