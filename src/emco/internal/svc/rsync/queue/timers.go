package queue

import (
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Timers call back for targets. A target has one timer; setting it again moves it.
type Timers struct {
	call func(pair.Target)

	mu     sync.Mutex
	timers map[pair.Target]*time.Timer
	off    bool
}

func NewTimers(ring func(pair.Target)) *Timers {
	return &Timers{call: ring, timers: map[pair.Target]*time.Timer{}}
}

func (a *Timers) Set(t pair.Target, in time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.off {
		return
	}
	if old := a.timers[t]; old != nil {
		old.Stop()
	}
	a.timers[t] = time.AfterFunc(in, func() { a.fire(t) })
}

func (a *Timers) fire(t pair.Target) {
	a.mu.Lock()
	off := a.off
	delete(a.timers, t)
	a.mu.Unlock()
	if !off {
		a.call(t)
	}
}

// Cancel removes the timer of a target.
func (a *Timers) Cancel(t pair.Target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if timer := a.timers[t]; timer != nil {
		timer.Stop()
		delete(a.timers, t)
	}
}

// Stop removes all timers for good.
func (a *Timers) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = true
	for _, t := range a.timers {
		t.Stop()
	}
}
