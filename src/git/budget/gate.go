package budget

import (
	"fmt"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// gate is where costs wait for buckets, and for a server that wants to be left alone. All
// of it is guarded by the budget's lock.
type gate struct {
	buckets []*bucket
	until   time.Time // closed before
	left    int       // calls, until reset; only if counted
	counted bool
	reset   time.Time

	users int    // that are on their way to it
	turns []line // whose turn is next comes first
	lines map[line][]*ticket
	timer *time.Timer
}

// line is the queue of a repository. What makes content waits apart from what does not,
// which is often to be had when the other is not.
type line struct {
	repo    string
	content bool
}

// ticket is a cost that waits at a gate.
type ticket struct {
	repo    string
	cost    git.Cost
	end     time.Time // it is of no use later; only if bounded
	bounded bool
	done    chan error // takes one without blocking
}

func (t *ticket) line() line { return line{t.repo, t.cost.Content > 0} }

// lateError says that a budget comes too late.
type lateError struct{ after time.Duration }

// Error says how long there is nothing.
func (e *lateError) Error() string {
	return fmt.Sprintf("the budget of calls and pushes is used up for %s", e.after.Round(time.Second))
}

// late refuses what is of no use at the time.
func (t *ticket) late(at time.Time) error {
	if !t.bounded || !at.After(t.end) {
		return nil
	}
	return &lateError{after: time.Until(at)}
}

func newGate(bounds []bound, now time.Time) *gate {
	g := &gate{lines: map[line][]*ticket{}}
	for _, b := range bounds {
		if b.limit > 0 {
			g.buckets = append(g.buckets, newBucket(b, now))
		}
	}
	return g
}

func (g *gate) join(t *ticket) {
	l := t.line()
	if len(g.lines[l]) == 0 {
		g.turns = append(g.turns, l)
	}
	g.lines[l] = append(g.lines[l], t)
}

// quit takes out a ticket that nobody waits with any more. One that has passed meanwhile
// gives back what it got.
func (g *gate) quit(t *ticket) {
	l := t.line()
	if i := slices.Index(g.lines[l], t); i >= 0 {
		g.drop(l, i)
		return
	}
	select {
	case err := <-t.done:
		if err == nil {
			g.give(t.cost)
		}
	default:
	}
}

// drop takes a ticket out of a line, and the line out of the turns if it was the last one.
func (g *gate) drop(l line, i int) {
	g.lines[l] = slices.Delete(g.lines[l], i, i+1)
	if len(g.lines[l]) > 0 {
		return
	}
	delete(g.lines, l)
	g.turns = slices.DeleteFunc(g.turns, func(o line) bool { return o == l })
}

// serve lets the first of each line pass, in turn, as long as there is enough, and returns
// when to look again; 0 if nobody waits. Who has to wait for a bucket keeps those behind
// away from it.
func (g *gate) serve(now time.Time) time.Duration {
	for {
		l, next := g.first(now)
		if l == nil {
			return next
		}
		t := g.lines[*l][0]
		g.take(t.cost, now)
		g.drop(*l, 0)
		g.rotate(*l)
		t.done <- nil
	}
}

// first returns the next line whose first ticket may pass, or when one may.
func (g *gate) first(now time.Time) (who *line, next time.Duration) {
	held := map[*bucket]bool{}
	for _, l := range g.turns {
		wait, lacking := g.lacks(g.lines[l][0].cost, held, now)
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

// lacks returns how long a cost has to wait, and for which buckets.
func (g *gate) lacks(c git.Cost, held map[*bucket]bool, now time.Time) (wait time.Duration, lacking []*bucket) {
	wait = g.closed(c, now)
	for _, b := range g.buckets {
		w := b.waitOne(c, now)
		if w > 0 || b.of(c) > 0 && held[b] {
			lacking = append(lacking, b)
		}
		wait = max(wait, w)
	}
	return wait, lacking
}

// closed is for how long the server does not want a cost.
func (g *gate) closed(c git.Cost, now time.Time) time.Duration {
	wait := max(0, g.until.Sub(now))
	if g.counted && !g.reset.After(now) {
		g.counted = false
	}
	if g.counted && c.Calls > g.left {
		wait = max(wait, g.reset.Sub(now))
	}
	return wait
}

// rotate gives the turn to others.
func (g *gate) rotate(l line) {
	if i := slices.Index(g.turns, l); i >= 0 {
		g.turns = append(slices.Delete(g.turns, i, i+1), l)
	}
}

func (g *gate) take(c git.Cost, now time.Time) {
	g.left -= c.Calls
	for _, b := range g.buckets {
		b.take(c, now)
	}
}

func (g *gate) give(c git.Cost) {
	g.left += c.Calls
	for _, b := range g.buckets {
		b.give(c)
	}
}

// reckon is about how long a new ticket will have to wait, behind those whose turn comes
// before.
func (g *gate) reckon(t *ticket, now time.Time) time.Duration {
	own := len(g.lines[t.line()])
	var before []git.Cost
	for l, queue := range g.lines {
		n := min(len(queue), own+1)
		if l == t.line() {
			n = own
		}
		for _, other := range queue[:n] {
			before = append(before, other.cost)
		}
	}
	wait := g.closed(t.cost, now)
	for _, b := range g.buckets {
		need := b.of(t.cost)
		if need == 0 {
			continue
		}
		sum := min(b.most, float64(need))
		for _, c := range before {
			sum += float64(b.of(c))
		}
		wait = max(wait, b.wait(sum, now))
	}
	return wait
}

// learn takes in what the server said. Who waits in vain now is told.
func (g *gate) learn(s git.RateStatus, now time.Time) {
	if s.Until.After(g.until) {
		g.until = s.Until
	}
	if (s.Limit > 0 || s.Remaining > 0) && s.Reset.After(now) {
		g.count(s)
	}
	for l, queue := range g.lines {
		for i, t := range slices.Backward(queue) {
			if err := t.late(now.Add(g.closed(t.cost, now))); err != nil {
				g.drop(l, i)
				t.done <- err
			}
		}
	}
}

// samePeriod is by how much two ends of one period may differ as servers tell them.
const samePeriod = 5 * time.Second

// count takes in how many calls are left. Answers overtake each other: within a period the
// least of them counts.
func (g *gate) count(s git.RateStatus) {
	switch {
	case !g.counted, s.Reset.After(g.reset.Add(samePeriod)):
		g.counted, g.left, g.reset = true, s.Remaining, s.Reset
	case s.Reset.After(g.reset.Add(-samePeriod)):
		g.left = min(g.left, s.Remaining)
	}
}

// idle says whether nothing is lost if the gate is forgotten.
func (g *gate) idle(now time.Time) bool {
	if g.users > 0 || g.closed(git.Cost{Calls: 1}, now) > 0 || g.counted {
		return false
	}
	for _, b := range g.buckets {
		if !b.full(now) {
			return false
		}
	}
	return true
}
