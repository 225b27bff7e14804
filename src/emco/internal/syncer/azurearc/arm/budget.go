package arm

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	burst   = 60          // writes at once, after a time of rest
	reserve = 100         // writes that are left to others of the same subscription
	rest    = time.Minute // for which writes pause when no more than the reserve is left
	recover = 15 * time.Second
)

// budget says when an account may ask again. Nobody waits in it: who may not ask is told
// when to come back, and so keeps nobody else from working.
type budget struct {
	writes *rate.Limiter
	now    func() time.Time

	mu          sync.Mutex
	all, writer time.Time // until when nothing, and nothing more than reads, may be asked
}

func newBudget(perHour int) *budget {
	every := rate.Every(time.Hour / time.Duration(max(perHour, 1)))
	return &budget{writes: rate.NewLimiter(every, min(burst, max(perHour/10, 1))), now: time.Now}
}

// take spends a request. It returns how long to wait if there is none to spend.
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

// heed takes in what Azure says of the account with an answer.
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

// unreachable has the account rest for a while: each attempt costs a timeout.
func (b *budget) unreachable() { b.hold(&b.all, recover) }

func (b *budget) hold(what *time.Time, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := b.now().Add(d); until.After(*what) {
		*what = until
	}
}

const (
	usualRetry   = 10 * time.Second // where Azure does not say
	longestRetry = time.Hour
)

// retryAfter reads when to come back.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return usualRetry
	}
	return min(time.Duration(seconds)*time.Second, longestRetry)
}
