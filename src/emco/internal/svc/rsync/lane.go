package rsync

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// lanes hands targets to workers: one at a time for each key, all that is queued for
// a key together. A worker exists while there is work for its key.
type lanes struct {
	mu     sync.Mutex
	queued map[string]map[target]bool
	active map[string]bool
	wg     sync.WaitGroup
	work   func(ctx context.Context, key string, due []target)
}

func newLanes(work func(ctx context.Context, key string, due []target)) *lanes {
	return &lanes{queued: map[string]map[target]bool{}, active: map[string]bool{}, work: work}
}

// add queues targets for a key and starts its worker if it has none. A target that
// is queued already is not queued twice; one that is being worked on is worked on again.
func (l *lanes) add(ctx context.Context, key string, due ...target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queued[key] == nil {
		l.queued[key] = map[target]bool{}
	}
	for _, t := range due {
		l.queued[key][t] = true
	}
	if l.active[key] || ctx.Err() != nil {
		return
	}
	l.active[key] = true
	l.wg.Go(func() { l.drain(ctx, key) })
}

// drain works until nothing is queued for the key.
func (l *lanes) drain(ctx context.Context, key string) {
	for {
		due := l.take(ctx, key)
		if len(due) == 0 {
			return
		}
		l.work(ctx, key, due)
	}
}

// take empties the key's queue; when there is nothing, or ctx has ended, the worker is over.
func (l *lanes) take(ctx context.Context, key string) []target {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := slices.SortedFunc(maps.Keys(l.queued[key]), compareTargets)
	delete(l.queued, key)
	if len(due) == 0 || ctx.Err() != nil {
		delete(l.active, key)
		return nil
	}
	return due
}

// wait returns when all workers have ended; no target may be added any more.
func (l *lanes) wait() { l.wg.Wait() }
