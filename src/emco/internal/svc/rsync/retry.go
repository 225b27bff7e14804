package rsync

import (
	"math/rand/v2"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// How failures are tried again. What is refused for good is tried at the longest
// interval only, because what refused it may change.
const (
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
	patience     = 5 // attempts before a pair counts as failed and not as retrying
)

// failed notes a failure in the pair and when to try again.
func failed(p appcontext.Pair, err error, now time.Time) appcontext.Pair {
	p.Attempt++
	p.Error = err.Error()
	p.Phase = appcontext.Retrying
	if final(err) || p.Attempt >= patience {
		p.Phase = appcontext.Failed
	}
	p.NextRetry = now.Add(backoff(p.Attempt, err))
	return p
}

// final reports whether trying the same again cannot help by itself.
func final(err error) bool {
	switch errs.KindOf(err) {
	case errs.Invalid, errs.Forbidden, errs.Unauthorized, errs.NotFound, errs.TooLarge:
		return true
	}
	return false
}

// backoff doubles from firstRetry to longestRetry, with a quarter of jitter so that
// many pairs do not return together. A server that says when to come back is obeyed.
func backoff(attempt int, err error) time.Duration {
	d := longestRetry
	if !final(err) && attempt < 20 {
		d = min(firstRetry<<(attempt-1), longestRetry)
	}
	d += rand.N(d/4 + 1)
	return max(d, errs.RetryAfter(err))
}
