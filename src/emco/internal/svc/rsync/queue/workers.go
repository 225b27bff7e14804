// Package queue runs work for keys: one worker at a time for each key, with timers for
// retries and one cancellation for each deployment.
package queue

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Workers runs work for keys: one worker at a time for each key, with all targets that are
// queued for the key together. A worker exists while its key has work.
type Workers struct {
	mu     sync.Mutex
	queued map[string]map[pair.Target]bool
	active map[string]bool
	wg     sync.WaitGroup
	work   func(ctx context.Context, key string, due []pair.Target)
}

func NewWorkers(work func(ctx context.Context, key string, due []pair.Target)) *Workers {
	return &Workers{queued: map[string]map[pair.Target]bool{}, active: map[string]bool{}, work: work}
}

// Add queues targets for a key and starts its worker if it has none. A target is queued once;
// one that is being worked on is worked on again.
func (l *Workers) Add(ctx context.Context, key string, due ...pair.Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queued[key] == nil {
		l.queued[key] = map[pair.Target]bool{}
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
func (l *Workers) drain(ctx context.Context, key string) {
	for {
		due := l.take(ctx, key)
		if len(due) == 0 {
			return
		}
		l.work(ctx, key, due)
	}
}

// take empties the key's queue; when there is nothing, or ctx has ended, the worker is over.
func (l *Workers) take(ctx context.Context, key string) []pair.Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := slices.SortedFunc(maps.Keys(l.queued[key]), pair.CompareTargets)
	delete(l.queued, key)
	if len(due) == 0 || ctx.Err() != nil {
		delete(l.active, key)
		return nil
	}
	return due
}

// Wait returns when all workers have ended; no target may be added from then on.
func (l *Workers) Wait() { l.wg.Wait() }
