// Package readpoint makes reads cheaper. The reads of one request, or of one round of a worker, share the revision of the
// store's last write (the read point). A copy that has reached this revision answers them. The store is asked for it by the first
// read, and again after 250 ms or after Drop. Reads see every write that was acknowledged before the request began, and all writes of the request itself.
package readpoint

import (
	"context"
	"sync"
	"time"
)

// maxAge is how long a read point is used. A request that takes longer takes another one.
const maxAge = 250 * time.Millisecond

// Point is the read point of one request or round. It is safe for use by many goroutines.
type Point struct {
	mu    sync.Mutex
	at    int64     // the highest revision that was taken; guarded by mu
	taken time.Time // when at was taken last; zero: it was dropped since; guarded by mu
	turn  int       // how often the point was dropped; guarded by mu
}

type key struct{}

// With returns a context whose reads share a new read point.
func With(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, &Point{}) }

// Without returns a context whose reads share nothing: each sees every write that was acknowledged before it.
func Without(ctx context.Context) context.Context {
	return context.WithValue(ctx, key{}, (*Point)(nil))
}

// Of returns the read point of a context; nil if its reads share none.
func Of(ctx context.Context) *Point {
	p, _ := ctx.Value(key{}).(*Point)
	return p
}

// Drop ends the use of the read point of a context: the next read asks again. A caller that has written elsewhere, or has
// waited, must see what others have written since.
func Drop(ctx context.Context) {
	p := Of(ctx)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = time.Time{}
	p.turn++
}

// At returns the revision that reads must have reached; 0 if the store must be asked. turn is for Take.
func (p *Point) At() (at int64, turn int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.taken) >= maxAge {
		return 0, p.turn
	}
	return p.at, p.turn
}

// Take advances the read point to the store's answer, which may have come with a read, or to the request's own write. Reads may
// use it until the point is dropped, or not at all if it was dropped since At returned the turn: then the revision may be from before that.
func (p *Point) Take(at int64, turn int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = max(p.at, at)
	if turn == p.turn {
		p.taken = time.Now()
	}
}

// Raise advances the read point to what the request has seen, so that later reads see nothing older. The age of the point stays.
func (p *Point) Raise(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = max(p.at, at)
}
