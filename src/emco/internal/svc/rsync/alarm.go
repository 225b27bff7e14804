package rsync

import (
	"sync"
	"time"
)

// alarms call back for a target at a time. A target has one alarm; setting it again
// moves it.
type alarms struct {
	ring func(target)

	mu     sync.Mutex
	timers map[target]*time.Timer
	off    bool
}

func newAlarms(ring func(target)) *alarms {
	return &alarms{ring: ring, timers: map[target]*time.Timer{}}
}

func (a *alarms) set(t target, in time.Duration) {
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

func (a *alarms) fire(t target) {
	a.mu.Lock()
	off := a.off
	delete(a.timers, t)
	a.mu.Unlock()
	if !off {
		a.ring(t)
	}
}

// silence takes back the alarm of a target.
func (a *alarms) silence(t target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if timer := a.timers[t]; timer != nil {
		timer.Stop()
		delete(a.timers, t)
	}
}

// stop silences all alarms for good.
func (a *alarms) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = true
	for _, t := range a.timers {
		t.Stop()
	}
}
