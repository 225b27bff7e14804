package githttp

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// Drain waits for the git programs of requests when a server ends: they write to the repositories also when their
// clients have left. The zero Drain is ready for use.
type Drain struct {
	mu      sync.Mutex
	running int           // requests that are being answered; guarded by mu
	idle    chan struct{} // not nil: the server ends; closed when the last request is answered; guarded by mu
}

// drainLimit is how long Close waits, because a hook may hold up a git program.
const drainLimit = 10 * time.Second

// Wrap counts the requests of a handler, and answers none once Close was called.
func (d *Drain) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.begin() {
			panic(http.ErrAbortHandler) // as a server that has ended
		}
		defer d.end()
		next.ServeHTTP(w, r)
	})
}

func (d *Drain) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.idle != nil {
		return false
	}
	d.running++
	return true
}

func (d *Drain) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	if d.idle != nil && d.running == 0 {
		close(d.idle)
	}
}

// refuse refuses further requests; the channel is closed when the last one is answered.
func (d *Drain) refuse() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.idle == nil {
		d.idle = make(chan struct{})
		if d.running == 0 {
			close(d.idle)
		}
	}
	return d.idle
}

// Close returns when all requests are answered.
func (d *Drain) Close() error {
	select {
	case <-d.refuse():
		return nil
	case <-time.After(drainLimit):
		return errors.New("a git program of a request still runs")
	}
}
