package arm

import (
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
	all, writer time.Time // end of the pause of all requests, and of writes; guarded by mu
}

func newBudget(perHour int) *budget {
	every := rate.Every(time.Hour / time.Duration(max(perHour, 1)))
	return &budget{writes: rate.NewLimiter(every, min(burst, max(perHour/10, 1))), now: time.Now}
}

// take spends a request. It returns the time until a retry if the budget is used up.
func (b *budget) take(write bool) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	until := b.all
	if write && b.writer.After(until) {
		until = b.writer
	}
	if until.After(now) {
		return until.Sub(now)
	}
	if !write {
		return 0
	}
	r := b.writes.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait
	}
	return 0
}

// heed applies the limits in an answer.
func (b *budget) heed(status int, h http.Header) {
	if status == http.StatusTooManyRequests {
		b.hold(&b.all, retryAfter(h))
	}
	for _, name := range []string{"X-Ms-Ratelimit-Remaining-Subscription-Writes", "X-Ms-Ratelimit-Remaining-Subscription-Global-Writes"} {
		if left, err := strconv.Atoi(h.Get(name)); err == nil && left <= reserve {
			b.hold(&b.writer, rest)
		}
	}
}

// unreachable pauses all requests for a while: each attempt costs a timeout.
func (b *budget) unreachable() { b.hold(&b.all, recover) }

func (b *budget) hold(what *time.Time, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := b.now().Add(d); until.After(*what) {
		*what = until
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
