package budget

import (
	"math"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// tokenBucket hands out tokens. A quarter of the limit, at least one, can be saved up; the rate is
// lower by that much, so that both together never exceed the limit in a period.
type tokenBucket struct {
	costOf   func(git.Cost) int
	burst    float64
	rate     float64 // a second
	tokens   float64 // below zero after a cost that is more than can be saved up
	filledAt time.Time
}

func newTokenBucket(b rateBound, now time.Time) *tokenBucket {
	most := max(1, b.limit/4)
	rate := b.limit - most
	if most == 1 {
		rate = b.limit // evenly, one at a time
	}
	return &tokenBucket{costOf: b.costOf, burst: float64(most), rate: float64(rate) / b.period.Seconds(), tokens: float64(most), filledAt: now}
}

// fill adds the tokens since the last call.
func (b *tokenBucket) fill(now time.Time) {
	if past := now.Sub(b.filledAt); past > 0 {
		b.tokens = min(b.burst, b.tokens+past.Seconds()*b.rate)
		b.filledAt = now
	}
}

// rounding is the tolerated error of fractions of tokens.
const rounding = 1e-6

// wait returns the time until n tokens are there. Of more than can be saved up, the first go when
// the bucket is full.
func (b *tokenBucket) wait(n float64, now time.Time) time.Duration {
	b.fill(now)
	if n == 0 || b.tokens+rounding >= n {
		return 0
	}
	return time.Duration(math.Ceil((n - b.tokens) / b.rate * float64(time.Second)))
}

// waitOne is wait for a single cost.
func (b *tokenBucket) waitOne(c git.Cost, now time.Time) time.Duration {
	return b.wait(min(b.burst, float64(b.costOf(c))), now)
}

func (b *tokenBucket) spend(c git.Cost, now time.Time) {
	b.fill(now)
	b.tokens -= float64(b.costOf(c))
}

func (b *tokenBucket) refund(c git.Cost) { b.tokens = min(b.burst, b.tokens+float64(b.costOf(c))) }

func (b *tokenBucket) full(now time.Time) bool {
	b.fill(now)
	return b.tokens+rounding >= b.burst
}
