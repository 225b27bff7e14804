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
	tokens   float64 // below zero after a cost that is more than can be saved up, if there is no share
	filledAt time.Time
	share    *share // nil: this process has the whole limit
}

func newTokenBucket(b rateBound, shared bool, now time.Time) *tokenBucket {
	most := max(1, b.limit/4)
	rate := b.limit - most
	if most == 1 {
		rate = b.limit // evenly, one at a time
	}
	t := &tokenBucket{costOf: b.costOf, burst: float64(most), rate: float64(rate) / b.period.Seconds(), filledAt: now}
	if shared {
		t.divide(b)
	} else {
		t.tokens = t.burst
	}
	return t
}

// fill adds the tokens since the last call.
func (b *tokenBucket) fill(now time.Time) {
	past := now.Sub(b.filledAt)
	if past <= 0 {
		return
	}
	b.filledAt = now
	if b.share != nil {
		b.share.left = min(b.burst, b.share.left+past.Seconds()*b.rate)
		b.expire(now)
		return
	}
	b.tokens = min(b.burst, b.tokens+past.Seconds()*b.rate)
}

// rounding is the tolerated error of fractions of tokens.
const rounding = 1e-6

// wait returns the time until n tokens are there, at least. Of more than can be saved up, the first go when
// the bucket is full.
func (b *tokenBucket) wait(n float64, now time.Time) time.Duration {
	b.fill(now)
	have := b.tokens
	if b.share != nil {
		have += b.share.left
	}
	if n == 0 || have+rounding >= n {
		return 0
	}
	return b.arrival(n - have)
}

// arrival returns the time in which n tokens arrive.
func (b *tokenBucket) arrival(n float64) time.Duration {
	return time.Duration(math.Ceil(n / b.rate * float64(time.Second)))
}

// waitOne returns the time until a single cost may be spent, or until more tokens can be taken for it.
func (b *tokenBucket) waitOne(c git.Cost, now time.Time) time.Duration {
	if b.share != nil && b.lacks(c, now) {
		return b.due(b.portion(c, 0))
	}
	return b.wait(b.need(c), now)
}

// need returns the tokens that must be there for a cost.
func (b *tokenBucket) need(c git.Cost) float64 { return min(b.burst, float64(b.costOf(c))) }

// lacks reports whether a cost cannot be spent now.
func (b *tokenBucket) lacks(c git.Cost, now time.Time) bool {
	b.fill(now)
	n := b.need(c)
	return n > 0 && b.tokens+rounding < n
}

func (b *tokenBucket) spend(c git.Cost, now time.Time) {
	b.fill(now)
	b.tokens -= float64(b.costOf(c))
}

func (b *tokenBucket) refund(c git.Cost) { b.tokens = min(b.burst, b.tokens+float64(b.costOf(c))) }

// full reports whether the bucket can be dropped without losing anything.
func (b *tokenBucket) full(now time.Time) bool {
	b.fill(now)
	if b.share != nil {
		return b.tokens <= 0 && !now.Before(b.share.takenAt.Add(b.share.keep))
	}
	return b.tokens+rounding >= b.burst
}
