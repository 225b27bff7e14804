// Package agenda says who is next: many parties, each with a time at which it wants its
// turn, and a few workers that give it to them. Nobody has a goroutine or a timer of its
// own, and nobody has two turns at once.
package scheduler

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Turn does what is due for a party and returns when it wants its next turn.
type Turn func(ctx context.Context, party int, now time.Time) time.Time

// Agenda is for parties with the numbers 0 to n-1. Make it with New.
type Agenda struct {
	mu    sync.Mutex
	queue queue
	items []item
	news  chan struct{} // the first of the queue may be another one
}

type item struct {
	party int
	at    time.Time
	place int       // in the queue; -1 during its turn
	early time.Time // a turn that was asked for during its turn; zero if none was
}

// New returns an agenda on which all parties are at the given times.
func New(at []time.Time) *Agenda {
	a := &Agenda{items: make([]item, len(at)), news: make(chan struct{}, 1)}
	for i, when := range at {
		a.items[i] = item{party: i, at: when, place: i}
		a.queue = append(a.queue, &a.items[i])
	}
	heap.Init(&a.queue)
	return a
}

// Wake gives a party its turn no later than at.
func (a *Agenda) Wake(party int, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	it := &a.items[party]
	switch {
	case it.place < 0:
		if it.early.IsZero() || at.Before(it.early) {
			it.early = at
		}
	case at.Before(it.at):
		it.at = at
		heap.Fix(&a.queue, it.place)
		a.tell()
	}
}

// Run gives turns until ctx ends, with so many workers, and waits for them.
func (a *Agenda) Run(ctx context.Context, workers int, turn Turn) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				it := a.next(ctx)
				if it == nil {
					return
				}
				a.back(it, turn(ctx, it.party, time.Now()))
			}
		})
	}
	all.Wait()
}

// next waits for the first whose time has come; nil when ctx has ended.
func (a *Agenda) next(ctx context.Context) *item {
	for ctx.Err() == nil {
		it, wait := a.take(time.Now())
		if it != nil {
			return it
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-a.news:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// idle is how long is waited when nobody is on the agenda: all have their turns.
const idle = time.Hour

func (a *Agenda) take(now time.Time) (*item, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		return nil, idle
	}
	first := a.queue[0]
	if wait := first.at.Sub(now); wait > 0 {
		return nil, wait
	}
	heap.Pop(&a.queue)
	first.place = -1
	a.tell() // others may wait for the one after it
	return first, 0
}

func (a *Agenda) back(it *item, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !it.early.IsZero() && it.early.Before(at) {
		at = it.early
	}
	it.at, it.early = at, time.Time{}
	heap.Push(&a.queue, it)
	a.tell()
}

// tell wakes one of those who wait. The caller holds mu.
func (a *Agenda) tell() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// queue is a heap by time.
type queue []*item

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, k int) bool { return q[i].at.Before(q[k].at) }
func (q queue) Swap(i, k int) {
	q[i], q[k] = q[k], q[i]
	q[i].place, q[k].place = i, k
}

// Push and Pop are for package heap.
func (q *queue) Push(x any) {
	it, _ := x.(*item)
	it.place = len(*q)
	*q = append(*q, it)
}

// Pop takes the last one.
func (q *queue) Pop() any {
	last := len(*q) - 1
	it := (*q)[last]
	*q = (*q)[:last]
	return it
}
