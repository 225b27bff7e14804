package arm

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	burst   = 60          // writes at once, after a pause
	reserve = 100         // writes that are left to other clients of the subscription
	rest    = time.Minute // pause of writes when only the reserve is left
	recover = 15 * time.Second
)

// budget limits the requests of an account. It never blocks: a caller without budget gets
// the time until a retry.
type budget struct {
	writes *rate.Limiter
	now    func() time.Time

	mu          sync.Mutex
	all, writer closure // of all requests, and of writes; guarded by mu
}

// closure is a time without requests.
type closure struct {
	until time.Time
	why   error // for users
}

func newBudget(perHour int) *budget {
	every := rate.Every(time.Hour / time.Duration(max(perHour, 1)))
	return &budget{writes: rate.NewLimiter(every, min(burst, max(perHour/10, 1))), now: time.Now}
}

// errShare means that the requests that the budget allows are used up.
var errShare = errors.New("EMCO's share of Azure's request limit is used up")

// take spends a request. If there must be none now, it returns the time until a retry, and
// the reason.
func (b *budget) take(write bool) (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	longest := b.all
	if write && b.writer.until.After(longest.until) {
		longest = b.writer
	}
	if longest.until.After(now) {
		return longest.until.Sub(now), longest.why
	}
	if !write {
		return 0, nil
	}
	r := b.writes.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, errShare
	}
	return 0, nil
}

// heed applies the limits in an answer.
func (b *budget) heed(status int, h http.Header) {
	if status == http.StatusTooManyRequests {
		b.hold(&b.all, retryAfter(h), errors.New("Azure answered another request with 429 "+http.StatusText(status)))
	}
	for _, name := range []string{"X-Ms-Ratelimit-Remaining-Subscription-Writes", "X-Ms-Ratelimit-Remaining-Subscription-Global-Writes"} {
		if left, err := strconv.Atoi(h.Get(name)); err == nil && left <= reserve {
			b.hold(&b.writer, rest, fmt.Errorf("the subscription has only %d writes left; EMCO leaves %d to others", left, reserve))
		}
	}
}

// unreachable pauses all requests for a while: each attempt costs a timeout.
func (b *budget) unreachable(why error) {
	b.hold(&b.all, recover, fmt.Errorf("cannot reach Azure: %w", why))
}

func (b *budget) hold(what *closure, d time.Duration, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := b.now().Add(d); until.After(what.until) {
		*what = closure{until, why}
	}
}

const (
	usualRetry   = 10 * time.Second // without a header
	longestRetry = time.Hour
)

// retryAfter reads the time until a retry.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return usualRetry
	}
	return min(time.Duration(seconds)*time.Second, longestRetry)
}
