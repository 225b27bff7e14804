package budget

import (
	"math"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// bucket hands out tokens. A quarter of the limit, one at least, can be saved up; so much
// less comes in a period that both together are the limit.
type bucket struct {
	of   func(git.Cost) int
	most float64
	rate float64 // a second
	have float64 // below zero after a cost that is more than can be saved up
	at   time.Time
}

func newBucket(b bound, now time.Time) *bucket {
	most := max(1, b.limit/4)
	rate := b.limit - most
	if most == 1 {
		rate = b.limit // evenly, one at a time
	}
	return &bucket{of: b.of, most: float64(most), rate: float64(rate) / b.period.Seconds(), have: float64(most), at: now}
}

// fill takes in what has come since.
func (b *bucket) fill(now time.Time) {
	if past := now.Sub(b.at); past > 0 {
		b.have = min(b.most, b.have+past.Seconds()*b.rate)
		b.at = now
	}
}

// grain is what tokens may be wrong by, from reckoning with fractions.
const grain = 1e-6

// wait is how long it takes until n tokens are there. Of more than can be saved up, the
// first go when the bucket is full.
func (b *bucket) wait(n float64, now time.Time) time.Duration {
	b.fill(now)
	if n == 0 || b.have+grain >= n {
		return 0
	}
	return time.Duration(math.Ceil((n - b.have) / b.rate * float64(time.Second)))
}

// waitOne is wait for a single cost.
func (b *bucket) waitOne(c git.Cost, now time.Time) time.Duration {
	return b.wait(min(b.most, float64(b.of(c))), now)
}

func (b *bucket) take(c git.Cost, now time.Time) {
	b.fill(now)
	b.have -= float64(b.of(c))
}

func (b *bucket) give(c git.Cost) { b.have = min(b.most, b.have+float64(b.of(c))) }

func (b *bucket) full(now time.Time) bool {
	b.fill(now)
	return b.have+grain >= b.most
}
