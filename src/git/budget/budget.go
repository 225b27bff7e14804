// Package budget limits requests to Git servers: per credential, which all its repositories
// share, and per repository, whichever credential is used.
//
//	Spend ── gate of the repository ── gate of the credential ── may go
//	           pushes, reads             calls, points, content
//	           (in order)                (repositories in turn)
//
// Each gate has token buckets. Within any span of its period a bucket never hands out more than its
// limit: a quarter of it can be saved up, the rest arrives evenly.
//
// The server's own figures take precedence: nothing is spent before the time that it named, nor
// more calls than it reported as left.
//
// Processes that use the same credentials share their limits by an Allowance: each takes a part of what is
// left, and spends it without further requests. While the Allowance does not answer, a process spends
// what it has taken, and then refuses with Unavailable. With the Allowance they also share the time that a
// server named: a process looks for it whenever it takes a part, and at most every five seconds otherwise.
package budget

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Options tune a Budget.
type Options struct {
	Rates     func(git.Repo) Rates // of a repository's server; Published when nil
	Allowance Allowance            // of credentials that several processes use; nil: there is one process
}

// Budget limits spending. It forgets credentials and repositories once their buckets are full
// again. Make it with New.
type Budget struct {
	rates     func(git.Repo) Rates
	allowance Allowance // nil: there is one process

	ctx      context.Context // of requests to the allowance
	cancel   context.CancelFunc
	requests sync.WaitGroup

	mu    sync.Mutex
	gates map[[sha256.Size]byte]*rateGate // guarded by mu, with all that they hold
	sweep int                             // number of gates that starts a removal of idle ones; guarded by mu
}

// firstSweep is the number of gates that starts the first removal of idle ones.
const firstSweep = 64

// New returns a full budget.
func New(o Options) *Budget {
	if o.Rates == nil {
		o.Rates = Published
	}
	b := &Budget{rates: o.Rates, allowance: o.Allowance, gates: map[[sha256.Size]byte]*rateGate{}, sweep: firstSweep}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Close ends the requests to the allowance. Call it after the last Spend has returned.
func (b *Budget) Close() error {
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	b.requests.Wait()
	return nil
}

// Spend waits until a cost may be spent. Repositories that wait for one credential take turns. It
// returns Throttled, with the time to come back, as soon as it is clear that ctx ends before.
func (b *Budget) Spend(ctx context.Context, r git.Repo, c git.Cost) error {
	if err := ctx.Err(); err != nil || c == (git.Cost{}) {
		return err
	}
	steps, err := b.enter(ctx, r, c)
	passed := 0
	for _, s := range steps {
		if err = b.wait(ctx, s); err != nil {
			break
		}
		passed++
	}
	b.leave(steps, passed)
	return refusal(r, err)
}

// gateTicket is a ticket at a gate.
type gateTicket struct {
	gate   *rateGate
	ticket *queuedCost
}

// enter makes tickets for the gates of repository and credential. It fails at once if either gate
// will not open in time.
func (b *Budget) enter(ctx context.Context, r git.Repo, c git.Cost) ([]gateTicket, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, rates := time.Now(), b.rates(r)
	var steps []gateTicket
	for _, g := range []*rateGate{
		b.gateLocked(ofRepository(r), func() *rateGate { return newRateGate(rates.repository(), nil, now) }),
		b.credentialLocked(r, rates, now),
	} {
		t := &queuedCost{repo: r.URL, cost: c, done: make(chan error, 1)}
		t.end, t.bounded = ctx.Deadline()
		if err := t.checkLate(now.Add(g.estimate(t, now))); err != nil {
			return nil, err
		}
		steps = append(steps, gateTicket{gate: g, ticket: t})
	}
	for _, s := range steps {
		s.gate.users++
	}
	return steps, nil
}

// wait queues for a gate and returns when it is passed.
func (b *Budget) wait(ctx context.Context, s gateTicket) error {
	b.mu.Lock()
	s.gate.enqueue(s.ticket)
	b.serveLocked(s.gate)
	b.mu.Unlock()
	select {
	case err := <-s.ticket.done:
		return err
	case <-ctx.Done():
		return b.overdue(ctx, s)
	}
}

// leave leaves the gates. If not all were passed, those that were get their cost back.
func (b *Budget) leave(steps []gateTicket, passed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, s := range steps {
		s.gate.users--
		if passed == len(steps) {
			continue
		}
		if i < passed {
			s.gate.refund(s.ticket.cost)
		} else {
			s.gate.withdraw(s.ticket)
		}
		b.serveLocked(s.gate)
	}
}

// serveLocked lets waiting costs pass, and sets a timer for the next one.
func (b *Budget) serveLocked(g *rateGate) {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	next := g.serve(time.Now())
	b.refreshLocked(g)
	if next > 0 {
		g.timer = time.AfterFunc(next, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.serveLocked(g)
		})
	}
}

// Observe records what a server reported. It holds for all repositories of the credential.
func (b *Budget) Observe(r git.Repo, s git.RateStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !s.Until.After(now) && (s.Limit == 0 && s.Remaining == 0 || !s.Reset.After(now)) {
		return // it is over
	}
	if most := now.Add(longestClosed); s.Until.After(most) {
		s.Until = most
	}
	s.Until = s.Until.Round(0) // other processes know the time of day only; both must pass at the same moment
	g := b.credentialLocked(r, b.rates(r), now)
	g.observe(s, now)
	b.serveLocked(g)
}

// credentialLocked returns the gate of a repository's credential.
func (b *Budget) credentialLocked(r git.Repo, rates Rates, now time.Time) *rateGate {
	id := ofCredential(r)
	return b.gateLocked(id, func() *rateGate {
		var shared *sharing
		if b.allowance != nil {
			shared = &sharing{credential: hex.EncodeToString(id[:])}
		}
		return newRateGate(rates.credential(), shared, now)
	})
}

// gateLocked returns a gate, and makes it if it does not exist.
func (b *Budget) gateLocked(id [sha256.Size]byte, build func() *rateGate) *rateGate {
	if g, ok := b.gates[id]; ok {
		return g
	}
	if len(b.gates) >= b.sweep {
		b.forgetLocked(time.Now())
		b.sweep = max(firstSweep, 2*len(b.gates))
	}
	g := build()
	b.gates[id] = g
	return g
}

// forgetLocked removes idle gates.
func (b *Budget) forgetLocked(now time.Time) {
	for id, g := range b.gates {
		if g.idle(now) {
			delete(b.gates, id)
		}
	}
}

// Size returns how many credentials and repositories are remembered.
func (b *Budget) Size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.gates)
}

// refusal names the repository in the error of an exhausted budget.
func refusal(r git.Repo, err error) error {
	if late, ok := errors.AsType[*exhaustedError](err); ok {
		return errs.Throttle("spend", r.URL, late.after, late)
	}
	if unshared, ok := errors.AsType[*unsharedError](err); ok {
		return errs.E(errs.Unavailable, "spend", r.URL, unshared)
	}
	return err
}

func ofRepository(r git.Repo) [sha256.Size]byte { return digest("repository", r.URL) }

func ofCredential(r git.Repo) [sha256.Size]byte {
	return digest("credential", r.Provider, serverOf(r.URL), r.User, r.Token.Reveal(), r.SSHKey.Reveal(), r.ClientCert,
		r.App.ID, strconv.FormatInt(r.App.Installation, 10))
}

// digest names a gate without keeping credentials.
func digest(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// serverOf returns the host of an address, also of scp's form.
func serverOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return strings.ToLower(u.Host)
	}
	host, _, _ := strings.Cut(address, ":")
	return strings.ToLower(host[strings.LastIndexByte(host, '@')+1:])
}
