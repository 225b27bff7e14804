package budget

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// Allowance stores what is left of credentials' limits where several processes reach it.
type Allowance interface {
	// Change has change alter what is left of a credential, and stores it if change returns true.
	// When another process was faster, it reads again and calls change again. A credential that is
	// not stored has the zero SharedTokens. What was not stored for an hour may be forgotten. The name
	// of a credential is a digest.
	Change(ctx context.Context, credential string, change func(*SharedTokens) bool) error
}

// SharedTokens are what all processes together have left of a credential's limits.
type SharedTokens struct {
	Until   time.Time               `json:"until,omitzero"` // the server asked to come back then
	Buckets map[string]SharedBucket `json:"buckets"`        // by limit; full if missing
}

// SharedBucket is what is left of one limit.
type SharedBucket struct {
	Tokens float64   `json:"tokens"`
	At     time.Time `json:"at"` // filled up to this time
}

// take takes tokens of a limit: as many as are wanted, or those that there are, unless they are too few
// to be worth it. left is what remains.
func (l *SharedTokens) take(p portion, now time.Time) (taken, left float64) {
	b, stored := l.Buckets[p.limit]
	if !stored {
		b = SharedBucket{Tokens: p.burst, At: now}
	}
	if past := now.Sub(b.At); past > 0 { // the clock of another process may be ahead
		b.Tokens, b.At = b.Tokens+past.Seconds()*p.rate, now
	}
	b.Tokens = min(p.burst, b.Tokens)
	if b.Tokens+rounding < p.least {
		return 0, b.Tokens
	}
	if taken = min(p.wanted, b.Tokens); taken+rounding >= p.short {
		taken += p.excess
	}
	b.Tokens -= taken
	if l.Buckets == nil {
		l.Buckets = map[string]SharedBucket{}
	}
	l.Buckets[p.limit] = b
	return taken, b.Tokens
}

// setClock lets a bucket fill from now on if the clock that wrote it was far ahead. A bucket that is a little ahead
// waits.
func (l *SharedTokens) setClock(p portion, now time.Time) (changed bool) {
	b, stored := l.Buckets[p.limit]
	if !stored || b.At.Sub(now) <= p.keep {
		return false
	}
	b.At = now
	l.Buckets[p.limit] = b
	return true
}

// portion is what a process asks for.
type portion struct {
	limit       string
	burst, rate float64
	keep        time.Duration
	least       float64 // less is not worth it
	short       float64 // lets the first cost pass
	excess      float64 // of the first cost above what can be saved up; taken with the last of short
	wanted      float64
}

// share is the part of a limit that a process has taken from what all processes have left. The tokens of
// its bucket are the part; it takes more when they do not suffice.
//
// A process that needs little takes what it needs. While it uses up what it takes, it takes twice as
// much each time, up to a twentieth of the limit. What it does not use within a twentieth of the
// period is lost, as is what it holds when it is killed. While little is left, it waits until a
// hundredth of the limit has arrived, and saves up for a cost that needs more.
type share struct {
	limit   string        // its name
	left    float64       // of all processes, as far as this one knows
	last    float64       // taken at takenAt
	takenAt time.Time     // of all tokens that are held
	keep    time.Duration // how long they may be used
	saving  bool          // a cost waits for more; what is held stays
	step    float64       // less than this is worth no request
	most    float64       // of a portion
}

const (
	portions = 20  // of a limit, at the least
	steps    = 100 // of a limit, at the most
)

// divide makes the bucket one process' share. What it holds may be used up to keep later, so the
// burst is lower by what arrives in that time: any span of the period still holds no more than the limit.
func (b *tokenBucket) divide(r rateBound) {
	keep := r.period / portions
	if b.burst > 1 {
		b.burst = max(1, b.burst-b.rate*keep.Seconds())
	} else {
		b.rate = float64(r.limit) / (r.period + keep).Seconds()
	}
	limit := float64(r.limit)
	b.share = &share{limit: r.name, left: b.burst, keep: keep, step: max(1, limit/steps), most: max(1, limit/portions)}
}

// expire drops tokens that are too old. The next portion is then as large as what was used of the last.
func (b *tokenBucket) expire(now time.Time) {
	if s := b.share; b.tokens > 0 && !s.saving && now.Sub(s.takenAt) >= s.keep {
		b.tokens, s.last = 0, max(0, s.last-b.tokens)/2
	}
}

// portion returns what to take for a cost; all is the sum of it and of those that wait behind it.
func (b *tokenBucket) portion(c git.Cost, all float64) portion {
	s := b.share
	short := b.need(c) - b.tokens
	wanted := min(max(2*s.last, all-b.tokens), s.most)
	if s.left < 2*s.step { // the others take it otherwise, bit by bit
		wanted = max(wanted, s.step)
	}
	return portion{
		limit: s.limit, burst: b.burst, rate: b.rate, keep: s.keep, least: s.step, short: short,
		excess: float64(b.costOf(c)) - b.need(c), wanted: max(short, min(wanted, b.burst)),
	}
}

// due returns the time until it is worth taking a portion.
func (b *tokenBucket) due(p portion) time.Duration {
	if b.share.left+rounding >= p.least {
		return 0
	}
	return b.arrival(p.least - b.share.left)
}

// receive adds what was taken.
func (b *tokenBucket) receive(taken, left float64, at time.Time) {
	b.fill(at)
	b.tokens += taken
	b.share.left, b.share.last = left, taken
	if taken > 0 {
		b.share.takenAt = at
	}
}

// sharing is what a gate knows of limits that other processes use, too.
type sharing struct {
	credential string
	until      time.Time // the server's time to come back that all processes know
	seen       time.Time // when it was read
	busy       bool      // a request is under way
	retryAt    time.Time // no request before: the last one failed
	failure    error     // of it
}

// request changes what is left of a credential.
type request struct {
	portions []portion
	until    time.Time // for the other processes

	// The answer.
	at    time.Time
	taken []float64 // by portion
	left  []float64
}

// change takes the portions, unless the server asked one of the processes to come back later. It may be
// called again.
func (r *request) change(l *SharedTokens) (changed bool) {
	r.at, r.taken, r.left = time.Now(), nil, nil
	if remaining(r.until, r.at) > remaining(l.Until, r.at) {
		l.Until, changed = r.until, true
	}
	r.until = l.Until
	if remaining(l.Until, r.at) > 0 {
		return changed
	}
	for _, p := range r.portions {
		changed = l.setClock(p, r.at) || changed
		taken, left := l.take(p, r.at)
		r.taken, r.left = append(r.taken, taken), append(r.left, left)
		changed = changed || taken > 0
	}
	return changed
}

// request returns what the gate has to ask; nil for nothing. Costs that need no tokens, as those of Git's own
// protocol, have it look for the server's time to come back once in a while.
func (g *rateGate) request(now time.Time) *request {
	r := &request{}
	if remaining(g.until, now) > remaining(g.sharing.until, now) {
		r.until = g.until
	}
	for _, b := range g.buckets {
		if p, due := g.portion(b, now); due {
			r.portions = append(r.portions, p)
		}
	}
	if r.until.IsZero() && len(r.portions) == 0 && (g.users == 0 || now.Sub(g.sharing.seen) < lookInterval) {
		return nil
	}
	return r
}

// portion returns what to take of a bucket for the costs that wait, and whether it is worth it now.
func (g *rateGate) portion(b *tokenBucket, now time.Time) (p portion, due bool) {
	var first git.Cost
	all := 0.0
	for _, l := range g.turns {
		c := g.queues[l][0].cost
		if !due && g.closedFor(c, now) == 0 && b.lacks(c, now) {
			first, due = c, true
		}
		for _, t := range g.queues[l] {
			all += float64(b.costOf(t.cost))
		}
	}
	if b.share.saving = due; !due {
		return portion{}, false
	}
	p = b.portion(first, all)
	return p, b.due(p) == 0
}

// receive adds what a request has taken.
func (g *rateGate) receive(r *request) {
	for i := range r.taken {
		for _, b := range g.buckets {
			if b.share.limit == r.portions[i].limit {
				b.receive(r.taken[i], r.left[i], r.at)
			}
		}
	}
	g.sharing.until, g.sharing.seen = r.until, r.at
	g.observe(git.RateStatus{Until: r.until}, time.Now())
}

// refuse ends all costs that wait for tokens.
func (g *rateGate) refuse(err error, now time.Time) {
	for _, b := range g.buckets {
		b.share.saving = false
	}
	for l, queue := range g.queues {
		for i, t := range slices.Backward(queue) {
			if slices.ContainsFunc(g.buckets, func(b *tokenBucket) bool { return b.lacks(t.cost, now) }) {
				g.remove(l, i)
				t.done <- err
			}
		}
	}
}

// refreshLocked asks for more tokens if costs wait for them, and refuses these costs for a while after a
// request has failed.
func (b *Budget) refreshLocked(g *rateGate) {
	now := time.Now()
	switch {
	case g.sharing == nil || g.sharing.busy || b.ctx.Err() != nil:
	case now.Before(g.sharing.retryAt):
		g.refuse(g.sharing.failure, now)
	default:
		if r := g.request(now); r != nil {
			g.sharing.busy = true
			b.requests.Go(func() { b.ask(g, r) })
		}
	}
}

// ask makes a request, and serves the costs that wait for it.
func (b *Budget) ask(g *rateGate, r *request) {
	ctx, cancel := context.WithTimeout(b.ctx, requestTimeout)
	defer cancel()
	err := b.allowance.Change(ctx, g.sharing.credential, r.change)
	b.mu.Lock()
	defer b.mu.Unlock()
	g.sharing.busy = false
	if err == nil {
		g.receive(r)
	} else {
		g.sharing.failure, g.sharing.retryAt = &unsharedError{err}, time.Now().Add(requestPause)
	}
	b.serveLocked(g)
}

// overdue returns the error of a cost whose time ended while it waited: Throttled if other processes had
// taken what is left.
func (b *Budget) overdue(ctx context.Context, s gateTicket) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := s.gate; g.sharing != nil && !g.sharing.busy && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &exhaustedError{after: max(requestPause, g.estimate(s.ticket, time.Now()))}
	}
	return ctx.Err()
}

const (
	requestTimeout = 5 * time.Second // after which the costs that wait are refused
	requestPause   = time.Second     // after a request that failed
	lookInterval   = 5 * time.Second // between two requests that want no tokens
)

// unsharedError is the error of an Allowance that does not answer.
type unsharedError struct{ cause error }

// Error says why nothing can be spent.
func (e *unsharedError) Error() string {
	return "the budget of this credential is shared by several processes and cannot be read: " + e.cause.Error()
}

// Unwrap returns why.
func (e *unsharedError) Unwrap() error { return e.cause }
