package queue

import (
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Timers call back for targets. A target has one timer; setting it again moves it.
type Timers struct {
	call    func(pair.Target)
	running sync.WaitGroup // calls in progress; Stop waits for them

	mu      sync.Mutex
	timers  map[pair.Target]*time.Timer // guarded by mu
	stopped bool                        // guarded by mu
}

// NewTimers returns timers that call a function, each time in a goroutine of its own.
func NewTimers(call func(pair.Target)) *Timers {
	return &Timers{call: call, timers: map[pair.Target]*time.Timer{}}
}

// Set sets the timer of a target.
func (t *Timers) Set(target pair.Target, in time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	t.cancelLocked(target)
	var timer *time.Timer
	timer = time.AfterFunc(in, func() { t.fire(target, timer) })
	t.timers[target] = timer
}

// fire calls back, unless the timer was moved or removed since it fired.
func (t *Timers) fire(target pair.Target, timer *time.Timer) {
	t.mu.Lock()
	current := t.timers[target] == timer && !t.stopped
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
	if timer := t.timers[target]; timer != nil {
		timer.Stop()
		delete(t.timers, target)
	}
}

// Stop removes all timers and returns when no call is running. No later Set has an effect.
// A call must not call Stop.
func (t *Timers) Stop() {
	t.mu.Lock()
	t.stopped = true
	for _, timer := range t.timers {
		timer.Stop()
	}
	t.mu.Unlock()
	t.running.Wait()
}
