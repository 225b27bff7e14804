package rsync

import (
	"context"
	"sync"
)

// followed is what a process knows of things of one kind that it follows in etcd. What it
// wrote itself it knows before it hears of it; of two states of a thing the newer one counts.
type followed[K comparable, V any] struct {
	mod func(V) int64 // the etcd revision of a state

	mu     sync.Mutex
	known  map[K]V
	synced bool
	moved  chan struct{} // closed, and replaced, when something has changed
}

func newFollowed[K comparable, V any](mod func(V) int64) *followed[K, V] {
	return &followed[K, V]{mod: mod, known: map[K]V{}, moved: make(chan struct{})}
}

// complete says that all is known that there was when following began.
func (f *followed[K, V]) complete() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced = true
	f.tell()
}

// keep remembers a state, unless a newer one is known.
func (f *followed[K, V]) keep(k K, v V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mod(v) > f.mod(f.known[k]) {
		f.known[k] = v
		f.tell()
	}
}

// drop forgets a thing whose last state was v, or that ended at v, unless a newer one is known.
func (f *followed[K, V]) drop(k K, v V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.known[k]; ok && f.mod(v) >= f.mod(last) {
		delete(f.known, k)
		f.tell()
	}
}

// tell wakes who waits. The caller holds the lock.
func (f *followed[K, V]) tell() {
	close(f.moved)
	f.moved = make(chan struct{})
}

// now returns what is known of a thing, without a wait.
func (f *followed[K, V]) now(k K) (v V, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok = f.known[k]
	return v, ok
}

// get returns what is known of a thing as soon as all is known; the zero value if there is
// no such thing. It fails only with ctx.
func (f *followed[K, V]) get(ctx context.Context, k K) (V, error) {
	for {
		f.mu.Lock()
		synced, moved, v := f.synced, f.moved, f.known[k]
		f.mu.Unlock()
		if synced {
			return v, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
}

// all returns the things that match, and what is closed when something has changed since.
func (f *followed[K, V]) all(match func(V) bool) (out []V, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.known {
		if match(v) {
			out = append(out, v)
		}
	}
	return out, f.moved
}

// await returns a thing that matches, as soon as there is one; false when ctx ends.
func (f *followed[K, V]) await(ctx context.Context, match func(V) bool) (none V, ok bool) {
	for ctx.Err() == nil {
		found, changed := f.all(match)
		if len(found) > 0 {
			return found[0], true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return none, false
}
