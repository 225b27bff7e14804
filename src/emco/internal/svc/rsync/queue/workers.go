// Package queue runs work for keys: one worker at a time for each key, with timers for
// retries and one cancellation for each deployment. It also lists the targets whose
// repository is unreachable, so that they are tried again together, and WithGrace leaves time
// for results that must still be written.
package queue

import (
	"context"
	"maps"
	"slices"
	"sync"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Workers runs work for keys: one worker at a time for each key, with all targets that are
// queued for the key together. A worker exists while its key has work.
type Workers struct {
	work func(ctx context.Context, key string, due []pair.Target)
	wg   sync.WaitGroup // the workers; Wait waits for them

	mu     sync.Mutex
	queued map[string]map[pair.Target]bool // by key; guarded by mu
	active map[string]bool                 // keys with a worker; guarded by mu
}

// NewWorkers returns workers without work. work must not be nil.
func NewWorkers(work func(ctx context.Context, key string, due []pair.Target)) *Workers {
	return &Workers{queued: map[string]map[pair.Target]bool{}, active: map[string]bool{}, work: work}
}

// Add queues targets for a key and starts its worker if it has none. A target is queued once;
// one that is being worked on is worked on again.
func (w *Workers) Add(ctx context.Context, key string, due ...pair.Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queued[key] == nil {
		w.queued[key] = map[pair.Target]bool{}
	}
	for _, t := range due {
		w.queued[key][t] = true
	}
	if w.active[key] || ctx.Err() != nil {
		return
	}
	w.active[key] = true
	w.wg.Go(func() { w.drain(ctx, key) })
}

// drain works until nothing is queued for the key.
func (w *Workers) drain(ctx context.Context, key string) {
	for {
		due := w.take(ctx, key)
		if len(due) == 0 {
			return
		}
		w.work(ctx, key, due)
	}
}

// take empties the queue of a key. If it is empty, or ctx has ended, the worker ends.
func (w *Workers) take(ctx context.Context, key string) []pair.Target {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := slices.SortedFunc(maps.Keys(w.queued[key]), pair.CompareTargets)
	delete(w.queued, key)
	if len(due) == 0 || ctx.Err() != nil {
		delete(w.active, key)
		return nil
	}
	return due
}

// WaitingBeside reports whether targets of other deployments than those are queued for a key.
func (w *Workers) WaitingBeside(key string, deployments map[v2.DeploymentID]bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for t := range w.queued[key] {
		if !deployments[t.Deployment] {
			return true
		}
	}
	return false
}

// Wait returns when all workers have ended. No target may be added after it.
func (w *Workers) Wait() { w.wg.Wait() }
