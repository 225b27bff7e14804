// Package fairshare shares permits among tenants: a tenant with much work does not delay the
// others, and work that is known to be slow does not delay work that is not.
//
//	tenant a ── fresh, fresh, slow ──┐                  ┌ permit
//	tenant b ── fresh ───────────────┼── who used least ┼ permit
//	tenant c ── slow ────────────────┘                  └ spare permit: for a tenant without one
package fairshare

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Rank orders the work of one tenant: what has the lowest rank is first.
type Rank int

// Ranks of work. Fresh work has no known time; Slow work took long before; Spent work ran out
// of time before.
const (
	Fresh Rank = iota
	Slow
	Spent
)

// Options describe the permits.
type Options struct {
	Permits   int // in use at the same time
	Spare     int // further permits, for tenants that hold none
	PerTenant int // most permits of one tenant; 0: no limit
	NotFresh  int // most permits for work that is not Fresh; 0: no limit
	// Weight returns how many times the time of others a tenant may use permits while others
	// wait; nil, or less than 1: once.
	Weight func(tenant string) int
}

// Shares grants permits: the next free permit goes to the waiting tenant that has used permits for
// the shortest time, by its weight. Tenants that were idle have no credit.
type Shares struct {
	options Options

	mu       sync.Mutex
	tenants  map[string]*tenant // that hold permits or wait; guarded by mu
	held     int                // permits in use; guarded by mu
	notFresh int                // of them by work that is not Fresh; guarded by mu
	floor    time.Duration      // the use that a new tenant begins with; guarded by mu
	arrived  int64              // acquisitions so far; guarded by mu
}

// tenant is a tenant that holds permits or waits. Its fields are guarded by Shares.mu.
type tenant struct {
	name    string
	weight  time.Duration
	used    time.Duration // by its weight, until since
	since   time.Time
	held    int
	waiting []*waiter // by rank, then arrival
}

type waiter struct {
	rank    Rank
	number  int64
	granted chan struct{} // closed with the grant
}

// New returns shares without permits in use.
func New(o Options) *Shares {
	o.Permits = max(1, o.Permits)
	return &Shares{options: o, tenants: map[string]*tenant{}}
}

// Acquire waits for a permit. The caller must call release once, when its work is done. The
// error is that of ctx.
func (s *Shares) Acquire(ctx context.Context, name string, rank Rank) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Enqueue(name, rank)(ctx)
}

// Enqueue takes a place in the queue. The caller must call wait once, which waits for the permit
// like Acquire.
func (s *Shares) Enqueue(name string, rank Rank) (wait func(context.Context) (release func(), err error)) {
	w := s.enqueue(name, rank)
	return func(ctx context.Context) (func(), error) {
		select {
		case <-w.granted:
		case <-ctx.Done():
			if !s.withdraw(name, w) {
				s.release(name, rank)
			}
			return nil, ctx.Err()
		}
		return func() { s.release(name, rank) }, nil
	}
}

// Waiting returns how many acquisitions of a tenant wait.
func (s *Shares) Waiting(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tenants[name]; t != nil {
		return len(t.waiting)
	}
	return 0
}

func (s *Shares) enqueue(name string, rank Rank) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	t := s.tenants[name]
	if t == nil {
		t = &tenant{name: name, weight: s.weightOf(name), used: s.floor, since: now}
		s.tenants[name] = t
	}
	s.arrived++
	w := &waiter{rank: rank, number: s.arrived, granted: make(chan struct{})}
	at, _ := slices.BinarySearchFunc(t.waiting, w, func(a, b *waiter) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.number, b.number))
	})
	t.waiting = slices.Insert(t.waiting, at, w)
	s.grantLocked(now)
	return w
}

// withdraw removes a waiter; false if it has a permit already.
func (s *Shares) withdraw(name string, w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[name]
	if t == nil {
		return false
	}
	at := slices.Index(t.waiting, w)
	if at < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, at, at+1)
	s.dropIdleLocked(t)
	return true
}

func (s *Shares) release(name string, rank Rank) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, t := time.Now(), s.tenants[name]
	t.count(now)
	t.held--
	s.held--
	if rank > Fresh {
		s.notFresh--
	}
	s.grantLocked(now)
	s.dropIdleLocked(t)
}

// grantLocked grants free permits while a waiter may have one.
func (s *Shares) grantLocked(now time.Time) {
	for {
		var next *tenant
		for _, t := range s.tenants {
			t.count(now)
			if s.mayGrantLocked(t) && (next == nil || t.before(next)) {
				next = t
			}
		}
		if next == nil {
			return
		}
		s.floor = max(s.floor, next.used)
		w := next.waiting[0]
		next.waiting = next.waiting[1:]
		next.held++
		s.held++
		if w.rank > Fresh {
			s.notFresh++
		}
		close(w.granted)
	}
}

// mayGrantLocked reports whether a tenant's first waiter may have a permit now.
func (s *Shares) mayGrantLocked(t *tenant) bool {
	o := s.options
	switch {
	case len(t.waiting) == 0, o.PerTenant > 0 && t.held >= o.PerTenant:
		return false
	case t.waiting[0].rank > Fresh && o.NotFresh > 0 && s.notFresh >= o.NotFresh:
		return false
	case s.held < o.Permits:
		return true
	}
	return t.held == 0 && t.waiting[0].rank == Fresh && s.held < o.Permits+o.Spare
}

// dropIdleLocked forgets a tenant that neither holds a permit nor waits.
func (s *Shares) dropIdleLocked(t *tenant) {
	if t.held == 0 && len(t.waiting) == 0 {
		delete(s.tenants, t.name)
	}
}

func (s *Shares) weightOf(name string) time.Duration {
	if s.options.Weight == nil {
		return 1
	}
	return time.Duration(max(1, s.options.Weight(name)))
}

// count adds the time since the last count to the tenant's use.
func (t *tenant) count(now time.Time) {
	t.used += now.Sub(t.since) * time.Duration(t.held) / t.weight
	t.since = now
}

// before reports whether t is served before u.
func (t *tenant) before(u *tenant) bool {
	return cmp.Or(
		cmp.Compare(t.used, u.used), cmp.Compare(t.held, u.held),
		cmp.Compare(t.waiting[0].rank, u.waiting[0].rank), cmp.Compare(t.waiting[0].number, u.waiting[0].number)) < 0
}
