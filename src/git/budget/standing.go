package budget

import (
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// Standing is what is left of a limit. The zero Standing is that of no limit.
type Standing struct {
	Remaining int       // that may be spent now
	Of        int       // the most that can be saved up
	Full      time.Time // when that much is left again; zero if it is
}

// Remaining returns what is left of a repository's limits: of its pushes, and of the calls of its credential by the limit that is
// nearest to its end. Of limits that several processes share it is what this one knows.
func (b *Budget) Remaining(r git.Repo) (pushes, calls Standing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, rates := time.Now(), b.rates(r)
	repository, known := b.gates[ofRepository(r)]
	if !known {
		repository = newRateGate(rates.repository(), nil, now)
	}
	credential, known := b.gates[ofCredential(r)]
	if !known {
		credential = newRateGate(rates.credential(), nil, now)
	}
	return repository.standing(git.Cost{Pushes: 1}, now), credential.standing(git.Cost{Calls: 1, Points: 1, Content: 1}, now)
}

// standing returns what is left of the limit on a cost that is nearest to its end.
func (g *rateGate) standing(c git.Cost, now time.Time) (out Standing) {
	for _, b := range g.buckets {
		if b.costOf(c) == 0 {
			continue
		}
		if s := b.standing(now); out.Of == 0 || s.Remaining*out.Of < out.Remaining*s.Of {
			out = s
		}
	}
	if c.Calls == 0 {
		return out
	}
	if g.counted && g.reset.After(now) && (out.Of == 0 || g.left < out.Remaining) {
		out = Standing{Remaining: g.left, Of: max(g.left, out.Of), Full: g.reset}
	}
	if g.until.After(now) {
		out.Remaining, out.Full = 0, g.until
	}
	return out
}

func (b *tokenBucket) standing(now time.Time) Standing {
	b.fill(now)
	have := b.tokens
	if b.share != nil {
		have += b.share.left
	}
	have = min(max(have, 0), b.burst)
	out := Standing{Remaining: int(have + rounding), Of: int(b.burst)}
	if have+rounding < b.burst {
		out.Full = now.Add(b.arrival(b.burst - have))
	}
	return out
}
