package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
)

// Shares bounds the requests that are served at the same time for each project. Requests that
// concern no project, such as those of agents and operators, pass.
type Shares struct {
	shares *fairshare.Shares
	wait   time.Duration
}

// projectPart divides the permits: one project may use one part of this many.
const projectPart = 8

// NewShares allows n requests at the same time, of them an eighth for one project. One more
// waits for at most the given time. weight may be nil; see fairshare.Options.
func NewShares(n int, wait time.Duration, weight func(project string) int) *Shares {
	return &Shares{
		shares: fairshare.New(fairshare.Options{Permits: n, PerTenant: max(1, n/projectPart), Weight: weight}),
		wait:   wait,
	}
}

// Wrap returns a handler that passes requests on to next when their project has a permit. A
// request that waited too long is answered 429.
func (s *Shares) Wrap(next http.Handler) http.Handler {
	return HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		project := projectOf(r.URL)
		if project == "" {
			next.ServeHTTP(w, r)
			return nil
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.wait)
		release, err := s.shares.Acquire(ctx, project, fairshare.Fresh)
		cancel()
		if err != nil {
			return errs.Throttle("", "", time.Second, errors.New("too many requests for project "+project+" are being served; send fewer at the same time"))
		}
		once := sync.OnceFunc(release)
		defer once()
		if t := traceOf(r.Context()); t != nil {
			t.leave = once
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// projectOf returns the project that a request concerns; empty if it concerns none.
func projectOf(u *url.URL) string {
	below, ok := strings.CutPrefix(u.EscapedPath(), "/v2/projects/")
	if !ok {
		return ""
	}
	escaped, _, _ := strings.Cut(below, "/")
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return escaped
	}
	return name
}

// leaveShare ends the use of the project's permit before the request ends: streams have a limit
// of their own.
func leaveShare(r *http.Request) {
	if t := traceOf(r.Context()); t != nil && t.leave != nil {
		t.leave()
	}
}
