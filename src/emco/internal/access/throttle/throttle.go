// Package throttle bounds how often each of many callers does something, in bounded memory.
package throttle

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of the memory.
const (
	maxKeys    = 10_000      // callers that are counted one by one
	sweepPause = time.Second // between two searches for callers that can be forgotten
)

// Limiter lets each caller act at a rate, after a burst.
type Limiter struct {
	rate  rate.Limit
	burst int
	now   func() time.Time

	mu      sync.Mutex
	callers map[string]*rate.Limiter // guarded by mu
	others  *rate.Limiter            // of all callers beyond maxKeys together; guarded by mu
	swept   time.Time                // guarded by mu
}

// New returns a limiter that lets each caller act burst times at once, and then perSecond times a second. The
// clock now is for tests; nil is time.Now.
func New(perSecond float64, burst int, now func() time.Time) *Limiter {
	if now == nil {
		now = time.Now
	}
	l := &Limiter{rate: rate.Limit(perSecond), burst: burst, now: now, callers: map[string]*rate.Limiter{}}
	l.others = rate.NewLimiter(l.rate, l.burst)
	return l
}

// Take counts one act of a caller. It returns zero, or how long the caller must wait before the next one; then
// the act is not counted. A nil Limiter lets everybody act.
func (l *Limiter) Take(caller string) (wait time.Duration) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	r := l.ofLocked(caller, now).ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// ofLocked returns what counts a caller.
func (l *Limiter) ofLocked(caller string, now time.Time) *rate.Limiter {
	if known := l.callers[caller]; known != nil {
		return known
	}
	if len(l.callers) >= maxKeys && now.Sub(l.swept) >= sweepPause {
		l.swept = now // who may act a whole burst again is as good as unknown
		maps.DeleteFunc(l.callers, func(_ string, c *rate.Limiter) bool { return c.TokensAt(now) >= float64(l.burst) })
	}
	if len(l.callers) >= maxKeys {
		return l.others
	}
	fresh := rate.NewLimiter(l.rate, l.burst)
	l.callers[caller] = fresh
	return fresh
}
