package budget

import (
	"fmt"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// rateGate is where costs wait for buckets, and for a server that asked for a pause. The budget's
// mu guards all of it.
type rateGate struct {
	buckets []*tokenBucket
	until   time.Time // closed before
	left    int       // calls until reset; only if counted
	counted bool
	reset   time.Time
	sharing *sharing // nil: no other process uses the limits

	users  int        // Spend calls that use the gate
	turns  []queueKey // next turn first
	queues map[queueKey][]*queuedCost
	timer  *time.Timer
}

// queueKey identifies the queue of a repository. Calls that make content wait apart from others,
// which often need not wait.
type queueKey struct {
	repo    string
	content bool
}

// queuedCost is a cost that waits at a gate.
type queuedCost struct {
	repo    string
	cost    git.Cost
	end     time.Time // deadline; only if bounded
	bounded bool
	done    chan error // buffered for one
}

func (t *queuedCost) queue() queueKey { return queueKey{t.repo, t.cost.Content > 0} }

// exhaustedError is the error of a budget that refills too late.
type exhaustedError struct{ after time.Duration }

// Error names the wait.
func (e *exhaustedError) Error() string {
	return fmt.Sprintf("the budget of calls and pushes is used up for %s", e.after.Round(time.Second))
}

// checkLate returns an error if the deadline is before a time.
func (t *queuedCost) checkLate(at time.Time) error {
	if !t.bounded || !at.After(t.end) {
		return nil
	}
	return &exhaustedError{after: time.Until(at)}
}

func newRateGate(bounds []rateBound, shared *sharing, now time.Time) *rateGate {
	g := &rateGate{queues: map[queueKey][]*queuedCost{}, sharing: shared}
	for _, b := range bounds {
		if b.limit > 0 {
			g.buckets = append(g.buckets, newTokenBucket(b, shared != nil, now))
		}
	}
	return g
}

func (g *rateGate) enqueue(t *queuedCost) {
	l := t.queue()
	if len(g.queues[l]) == 0 {
		g.turns = append(g.turns, l)
	}
	g.queues[l] = append(g.queues[l], t)
}

// withdraw removes a cost whose caller left. One that passed meanwhile is refunded.
func (g *rateGate) withdraw(t *queuedCost) {
	l := t.queue()
	if i := slices.Index(g.queues[l], t); i >= 0 {
		g.remove(l, i)
		return
	}
	select {
	case err := <-t.done:
		if err == nil {
			g.refund(t.cost)
		}
	default:
	}
}

// remove removes a cost from a queue, and an empty queue from the turns.
func (g *rateGate) remove(l queueKey, i int) {
	g.queues[l] = slices.Delete(g.queues[l], i, i+1)
	if len(g.queues[l]) > 0 {
		return
	}
	delete(g.queues, l)
	g.turns = slices.DeleteFunc(g.turns, func(o queueKey) bool { return o == l })
}

// serve lets the first of each queue pass, in turn, while there is enough, and returns when to
// serve again; 0 if none waits. A cost that waits for a bucket keeps later ones from it.
func (g *rateGate) serve(now time.Time) time.Duration {
	for {
		l, next := g.nextQueue(now)
		if l == nil {
			return next
		}
		t := g.queues[*l][0]
		g.spend(t.cost, now)
		g.remove(*l, 0)
		g.moveToBack(*l)
		t.done <- nil
	}
}

// nextQueue returns the next queue whose first cost may pass, or the time until one may.
func (g *rateGate) nextQueue(now time.Time) (who *queueKey, next time.Duration) {
	held := map[*tokenBucket]bool{}
	for _, l := range g.turns {
		wait, lacking := g.waitFor(g.queues[l][0].cost, held, now)
		if wait == 0 && len(lacking) == 0 {
			return &l, 0
		}
		for _, b := range lacking {
			held[b] = true
		}
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return nil, next
}

// waitFor returns how long a cost must wait, and the buckets that lack tokens.
func (g *rateGate) waitFor(c git.Cost, held map[*tokenBucket]bool, now time.Time) (wait time.Duration, lacking []*tokenBucket) {
	wait = g.closedFor(c, now)
	for _, b := range g.buckets {
		w := b.waitOne(c, now)
		if b.lacks(c, now) || b.costOf(c) > 0 && held[b] {
			lacking = append(lacking, b)
		}
		wait = max(wait, w)
	}
	return wait, lacking
}

// closedFor returns how long the server refuses a cost.
func (g *rateGate) closedFor(c git.Cost, now time.Time) time.Duration {
	wait := remaining(g.until, now)
	if g.counted && !g.reset.After(now) {
		g.counted = false
	}
	if g.counted && c.Calls > g.left {
		wait = max(wait, g.reset.Sub(now))
	}
	return wait
}

const (
	longestClosed = 61 * time.Minute // after an answer; what reads answers caps them at an hour
	clockSkew     = 10 * time.Minute // of two processes, or of one before and after its clock was set
)

// remaining returns how long a server refuses calls that it wants again at until. A time that is too far ahead
// comes from a clock that was wrong, and counts as over.
func remaining(until, now time.Time) time.Duration {
	if d := until.Sub(now); d <= longestClosed+clockSkew {
		return max(0, d)
	}
	return 0
}

// moveToBack ends the turn of a queue.
func (g *rateGate) moveToBack(l queueKey) {
	if i := slices.Index(g.turns, l); i >= 0 {
		g.turns = append(slices.Delete(g.turns, i, i+1), l)
	}
}

func (g *rateGate) spend(c git.Cost, now time.Time) {
	g.left -= c.Calls
	for _, b := range g.buckets {
		b.spend(c, now)
	}
}

func (g *rateGate) refund(c git.Cost) {
	g.left += c.Calls
	for _, b := range g.buckets {
		b.refund(c)
	}
}

// estimate returns about how long a new cost will wait, behind those whose turn comes first.
func (g *rateGate) estimate(t *queuedCost, now time.Time) time.Duration {
	own := len(g.queues[t.queue()])
	var before []git.Cost
	for l, queue := range g.queues {
		n := min(len(queue), own+1)
		if l == t.queue() {
			n = own
		}
		for _, other := range queue[:n] {
			before = append(before, other.cost)
		}
	}
	wait := g.closedFor(t.cost, now)
	for _, b := range g.buckets {
		need := b.costOf(t.cost)
		if need == 0 {
			continue
		}
		sum := min(b.burst, float64(need))
		for _, c := range before {
			sum += float64(b.costOf(c))
		}
		wait = max(wait, b.wait(sum, now))
	}
	return wait
}

// observe records a server's report. Costs that would now wait beyond their deadline fail at once.
func (g *rateGate) observe(s git.RateStatus, now time.Time) {
	if remaining(s.Until, now) > remaining(g.until, now) {
		g.until = s.Until
	}
	if (s.Limit > 0 || s.Remaining > 0) && s.Reset.After(now) {
		g.observeRemaining(s)
	}
	for l, queue := range g.queues {
		for i, t := range slices.Backward(queue) {
			if err := t.checkLate(now.Add(g.closedFor(t.cost, now))); err != nil {
				g.remove(l, i)
				t.done <- err
			}
		}
	}
}

// samePeriod is how much two reported ends of one period may differ.
const samePeriod = 5 * time.Second

// observeRemaining records the remaining calls. Answers overtake each other: within a period the
// lowest figure counts.
func (g *rateGate) observeRemaining(s git.RateStatus) {
	switch {
	case !g.counted, s.Reset.After(g.reset.Add(samePeriod)):
		g.counted, g.left, g.reset = true, s.Remaining, s.Reset
	case s.Reset.After(g.reset.Add(-samePeriod)):
		g.left = min(g.left, s.Remaining)
	}
}

// idle reports whether the gate can be dropped without losing anything.
func (g *rateGate) idle(now time.Time) bool {
	if g.users > 0 || g.sharing != nil && g.sharing.busy || g.closedFor(git.Cost{Calls: 1}, now) > 0 || g.counted {
		return false
	}
	for _, b := range g.buckets {
		if !b.full(now) {
			return false
		}
	}
	return true
}
