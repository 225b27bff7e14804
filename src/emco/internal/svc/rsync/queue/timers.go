package queue

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Timers call back for targets. A target has one timer; setting it again moves it.
type Timers struct {
	call    func(pair.Target)
	running sync.WaitGroup // calls in progress; Stop waits for them

	mu      sync.Mutex
	timers  map[pair.Target]*pendingCall // guarded by mu
	stopped bool                         // guarded by mu
}

// pendingCall is one setting of a timer. Its address tells a fired timer whether it is still
// the one of its target.
type pendingCall struct {
	timer *time.Timer // guarded by Timers.mu
}

// NewTimers returns timers that call a function, each time in a goroutine of its own.
func NewTimers(call func(pair.Target)) *Timers {
	return &Timers{call: call, timers: map[pair.Target]*pendingCall{}}
}

// Set sets the timer of a target.
func (t *Timers) Set(target pair.Target, in time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	t.cancelLocked(target)
	c := &pendingCall{}
	c.timer = time.AfterFunc(in, func() { t.fire(target, c) })
	t.timers[target] = c
}

// fire calls back, unless the timer was moved or removed since it fired.
func (t *Timers) fire(target pair.Target, c *pendingCall) {
	t.mu.Lock()
	current := t.timers[target] == c && !t.stopped
	if current {
		delete(t.timers, target)
		t.running.Add(1) // with mu held, so Stop sees it or prevents the call
	}
	t.mu.Unlock()
	if current {
		defer t.running.Done()
		t.call(target)
	}
}

// Cancel removes the timer of a target.
func (t *Timers) Cancel(target pair.Target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancelLocked(target)
}

func (t *Timers) cancelLocked(target pair.Target) {
	if c := t.timers[target]; c != nil {
		c.timer.Stop()
		delete(t.timers, target)
	}
}

// Waiting returns the targets that have a timer, in order.
func (t *Timers) Waiting() []pair.Target {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Keys(t.timers), pair.CompareTargets)
}

// Stop removes all timers and returns when no call is running. No later Set has an effect.
// A call must not call Stop.
func (t *Timers) Stop() {
	t.mu.Lock()
	t.stopped = true
	for _, c := range t.timers {
		c.timer.Stop()
	}
	t.mu.Unlock()
	t.running.Wait()
}
