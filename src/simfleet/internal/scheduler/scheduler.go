// Package scheduler runs many tasks with a few workers. Each task has a time at which it
// runs next; none has a goroutine or a timer of its own, and none runs twice at once.
package scheduler

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Turn does what is due for a task and returns when the task runs next.
type Turn func(ctx context.Context, task int, now time.Time) time.Time

// Scheduler schedules the tasks 0 to n-1. Make it with New.
type Scheduler struct {
	wake chan struct{} // the earliest entry may have changed

	mu      sync.Mutex
	waiting entryHeap // guarded by mu, as are the fields of entries
	entries []entry
}

type entry struct {
	task   int
	at     time.Time
	index  int       // in the heap; -1 while the task runs
	wakeAt time.Time // requested while the task runs; zero if it was not
}

// New returns a scheduler whose tasks run first at the given times.
func New(at []time.Time) *Scheduler {
	s := &Scheduler{entries: make([]entry, len(at)), wake: make(chan struct{}, 1)}
	for i, when := range at {
		s.entries[i] = entry{task: i, at: when, index: i}
		s.waiting = append(s.waiting, &s.entries[i])
	}
	heap.Init(&s.waiting)
	return s
}

// Wake runs a task no later than at.
func (s *Scheduler) Wake(task int, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &s.entries[task]
	switch {
	case e.index < 0:
		if e.wakeAt.IsZero() || at.Before(e.wakeAt) {
			e.wakeAt = at
		}
	case at.Before(e.at):
		e.at = at
		heap.Fix(&s.waiting, e.index)
		s.wakeWorkerLocked()
	}
}

// Run runs tasks with the given number of workers until ctx ends, and waits for the workers.
func (s *Scheduler) Run(ctx context.Context, workers int, turn Turn) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				e := s.next(ctx)
				if e == nil {
					return
				}
				s.requeue(e, turn(ctx, e.task, time.Now()))
			}
		})
	}
	all.Wait()
}

// next waits until a task is due. It returns nil when ctx has ended.
func (s *Scheduler) next(ctx context.Context) *entry {
	for ctx.Err() == nil {
		e, wait := s.pop(time.Now())
		if e != nil {
			return e
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// emptyWait is how long to wait while all tasks run.
const emptyWait = time.Hour

// pop returns the task that is due, or how long to wait for the earliest one.
func (s *Scheduler) pop(now time.Time) (*entry, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return nil, emptyWait
	}
	first := s.waiting[0]
	if wait := first.at.Sub(now); wait > 0 {
		return nil, wait
	}
	heap.Pop(&s.waiting)
	first.index = -1
	s.wakeWorkerLocked() // another worker may wait for the entry behind it
	return first, 0
}

func (s *Scheduler) requeue(e *entry, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.wakeAt.IsZero() && e.wakeAt.Before(at) {
		at = e.wakeAt
	}
	e.at, e.wakeAt = at, time.Time{}
	heap.Push(&s.waiting, e)
	s.wakeWorkerLocked()
}

// wakeWorkerLocked wakes one of the workers that wait.
func (s *Scheduler) wakeWorkerLocked() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// entryHeap is a heap by time.
type entryHeap []*entry

func (q entryHeap) Len() int           { return len(q) }
func (q entryHeap) Less(i, k int) bool { return q[i].at.Before(q[k].at) }
func (q entryHeap) Swap(i, k int) {
	q[i], q[k] = q[k], q[i]
	q[i].index, q[k].index = i, k
}

// Push and Pop are for package heap.
func (q *entryHeap) Push(x any) {
	e, _ := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop removes the last entry.
func (q *entryHeap) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}
