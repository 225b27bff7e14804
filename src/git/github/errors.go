package github

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
	shortestWait = time.Minute      // when a secondary limit is hit and nothing says for how long
	longestWait  = 15 * time.Minute // of those
	longestReset = time.Hour        // until a primary limit is over
	maxLimits    = 1024             // credentials whose secondary limits are remembered
)

var (
	// errEmpty says that a repository has no commit yet, which most of the interface refuses.
	errEmpty = errors.New("the repository is empty")
	// errGone says that a request names an object which the server has not.
	errGone = errors.New("the server lacks an object that it is taken to have")
)

// checkAnswer reads an answer: what it says about the credential goes to the budget, and a
// refusal becomes an error of a kind.
func (d *client) checkAnswer(resp *http.Response, err error) error {
	now := time.Now()
	s := rateStatusOf(resp.Header)
	wait := d.h.limits.wait(d.credentialKey(), resp, messageOf(err), now)
	if wait > 0 {
		s.Until = now.Add(wait)
	}
	if s != (git.RateStatus{}) {
		d.h.opt.Budget.Observe(d.repo, s)
	}
	switch {
	case wait > 0:
		return errs.Throttle("", "", wait, answerError(resp, messageOf(err)))
	case !isJSON(resp) && (resp.StatusCode < 300 && !isRaw(resp) || resp.StatusCode == http.StatusNotFound):
		return errs.E(errs.Unavailable, "", "", fmt.Errorf("the answer (%d) is not GitHub's; is the interface's address right, and is there a login page or a proxy before it?", resp.StatusCode))
	case err == nil:
		return nil
	case resp.StatusCode < 300:
		return unreadableAnswer(err)
	}
	return refusalError(resp, err)
}

// credentialKey tells credentials apart.
func (d *client) credentialKey() string {
	return d.base.Host + " " + d.repo.App.ID + " " + strconv.FormatInt(d.repo.App.Installation, 10) + " " + d.repo.Token.Reveal()
}

// unreadableAnswer is the error of an answer that could not be read to its end, or not understood.
func unreadableAnswer(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return errs.E(errs.TooLarge, "", "", fmt.Errorf("the answer has more than %d bytes", maxAnswer))
	}
	if _, later := errors.AsType[*gh.AcceptedError](err); later {
		err = errors.New("the server is not ready to tell")
	}
	return errs.E(errs.Unavailable, "", "", err)
}

// refusalError turns a status above 299 into an error of a kind.
func refusalError(resp *http.Response, err error) error {
	words := messageOf(err)
	cause := answerError(resp, words)
	switch code := resp.StatusCode; code {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		return errs.E(errs.Unauthorized, "", "", cause)
	case http.StatusForbidden, http.StatusUnavailableForLegalReasons:
		return errs.E(errs.Forbidden, "", "", cause)
	case http.StatusNotFound, http.StatusGone:
		return errs.E(errs.NotFound, "", "", fmt.Errorf("%w; there is none, or the credential may not see it", cause))
	case http.StatusConflict:
		if strings.Contains(strings.ToLower(words), "repository is empty") {
			cause = errEmpty
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

// unprocessable tells apart what GitHub has one status for, by its words. It is done before
// these are cleared of credentials, which may be part of any word.
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
		return errs.E(errs.Conflict, "", "", errGone)
	case holds("too large", "exceeds"):
		return errs.E(errs.TooLarge, "", "", cause)
	}
	return errs.E(errs.Invalid, "", "", cause)
}

// answerError is the error that shows a status and what the server said.
func answerError(resp *http.Response, words string) error {
	return fmt.Errorf("the server answers %d %s", resp.StatusCode, cmp.Or(words, http.StatusText(resp.StatusCode)))
}

// messageOf returns what the server said, in one text, "" if nothing that can be read.
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

// isRaw tells the answer of a file's content.
func isRaw(resp *http.Response) bool {
	kind := resp.Header.Get("Content-Type")
	return strings.HasPrefix(kind, "application/vnd.github") || strings.HasPrefix(kind, "application/octet-stream")
}

// rateStatusOf reads the headers about the primary limit.
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

// retryAfterOf returns how long a server asks to wait.
func retryAfterOf(resp *http.Response) (time.Duration, bool) {
	if resp.Header.Get("Retry-After") == "" {
		return 0, false
	}
	return transport.RetryAfter(resp.Header.Get("Retry-After"))
}

// secondaryLimits remembers how often in a row each credential met a secondary limit that did not
// say for how long.
type secondaryLimits struct {
	mu   sync.Mutex
	hits map[string]int
}

// wait returns for how long nothing may be asked after an answer; zero if it is none of a limit.
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

// nextWait is a minute, and twice as long each time.
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
