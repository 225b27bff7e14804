// Package fairshare shares slots among tenants: a tenant with much work does not delay the
// others, and work that is known to be slow does not delay work that is not.
//
//	tenant a ── fresh, fresh, slow ──┐                  ┌ slot
//	tenant b ── fresh ───────────────┼── who used least ┼ slot
//	tenant c ── slow ────────────────┘                  └ spare slot: for a tenant without one
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

// Options describe the slots.
type Options struct {
	Slots  int // in use at the same time
	Spare  int // further slots, for tenants that hold none
	Tenant int // most slots of one tenant; 0: no limit
	Late   int // most slots for work that is not Fresh; 0: no limit
	// Weight returns how many times the time of others a tenant may use slots while others
	// wait; nil, or less than 1: once.
	Weight func(tenant string) int
}

// Shares grants slots: the next free slot goes to the waiting tenant that has used slots for
// the shortest time, by its weight. Tenants that were idle have no credit.
type Shares struct {
	options Options

	mu      sync.Mutex
	tenants map[string]*tenant // that hold slots or wait; guarded by mu
	held    int                // slots in use; guarded by mu
	late    int                // of them by work that is not Fresh; guarded by mu
	floor   time.Duration      // the use that a new tenant begins with; guarded by mu
	arrived int64              // acquisitions so far; guarded by mu
}

// tenant is a tenant that holds slots or waits. Its fields are guarded by Shares.mu.
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

// New returns shares of which no slot is in use.
func New(o Options) *Shares {
	o.Slots = max(1, o.Slots)
	return &Shares{options: o, tenants: map[string]*tenant{}}
}

// Acquire waits for a slot. The caller must call release once, when its work is done. The
// error is that of ctx.
func (s *Shares) Acquire(ctx context.Context, name string, rank Rank) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Enqueue(name, rank)(ctx)
}

// Enqueue takes a place in the queue. The caller must call wait once, which waits for the slot
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

// withdraw removes a waiter; false if it has a slot already.
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
		s.late--
	}
	s.grantLocked(now)
	s.dropIdleLocked(t)
}

// grantLocked grants free slots as long as a waiter may have one.
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
			s.late++
		}
		close(w.granted)
	}
}

// mayGrantLocked reports whether a tenant's first waiter may have a slot now.
func (s *Shares) mayGrantLocked(t *tenant) bool {
	o := s.options
	switch {
	case len(t.waiting) == 0, o.Tenant > 0 && t.held >= o.Tenant:
		return false
	case t.waiting[0].rank > Fresh && o.Late > 0 && s.late >= o.Late:
		return false
	case s.held < o.Slots:
		return true
	}
	return t.held == 0 && t.waiting[0].rank == Fresh && s.held < o.Slots+o.Spare
}

// dropIdleLocked forgets a tenant that neither holds a slot nor waits.
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
