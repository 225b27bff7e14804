package queue

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Timers call back for keys, such as targets. A key has one timer; setting it again moves it.
type Timers[K comparable] struct {
	call    func(K)
	running sync.WaitGroup // calls in progress; Stop waits for them

	mu      sync.Mutex
	timers  map[K]*pendingCall // guarded by mu
	stopped bool               // guarded by mu
}

// pendingCall is one setting of a timer. By its address a fired timer knows whether it is still
// the one of its key.
type pendingCall struct {
	timer *time.Timer // guarded by Timers.mu
}

// NewTimers returns timers that call a function, each time in a goroutine of its own.
func NewTimers[K comparable](call func(K)) *Timers[K] {
	return &Timers[K]{call: call, timers: map[K]*pendingCall{}}
}

// Set sets the timer of a key.
func (t *Timers[K]) Set(key K, in time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	t.cancelLocked(key)
	c := &pendingCall{}
	c.timer = time.AfterFunc(in, func() { t.fire(key, c) })
	t.timers[key] = c
}

// fire calls back, unless the timer was moved or removed since it fired.
func (t *Timers[K]) fire(key K, c *pendingCall) {
	t.mu.Lock()
	current := t.timers[key] == c && !t.stopped
	if current {
		delete(t.timers, key)
		t.running.Add(1) // with mu held, so Stop sees it or prevents the call
	}
	t.mu.Unlock()
	if current {
		defer t.running.Done()
		t.call(key)
	}
}

// Cancel removes the timer of a key.
func (t *Timers[K]) Cancel(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancelLocked(key)
}

func (t *Timers[K]) cancelLocked(key K) {
	if c := t.timers[key]; c != nil {
		c.timer.Stop()
		delete(t.timers, key)
	}
}

// Waiting returns the keys that have a timer, in no order.
func (t *Timers[K]) Waiting() []K {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.timers))
}

// Stop removes all timers and returns when no call is running. No later Set has an effect.
// A call must not call Stop.
func (t *Timers[K]) Stop() {
	t.mu.Lock()
	t.stopped = true
	for _, c := range t.timers {
		c.timer.Stop()
	}
	t.mu.Unlock()
	t.running.Wait()
}
