// Package reportbatch collects what clusters report and hands it on in batches.
package reportbatch

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Window is how long reports are collected before they are handled together.
const Window = 200 * time.Millisecond

// Batcher collects reports. The latest report of a pair wins. One goroutine hands batches
// on while there are any; it ends with the context, and Wait waits for it.
type Batcher struct {
	ctx    context.Context
	handle func(context.Context, []appcontext.Report) error
	log    *slog.Logger
	opened chan struct{} // closed by Open

	mu      sync.Mutex
	pending map[appcontext.PairKey]appcontext.Report // guarded by mu
	running bool                                     // guarded by mu: the goroutine exists
	closed  bool                                     // guarded by mu: no goroutine may start
	wg      sync.WaitGroup                           // the goroutine; Wait waits for it
}

// NewBatcher returns a batcher that calls handle with batches until ctx ends. A batch that
// handle fails on is handed on again, with newer reports in place of older ones.
func NewBatcher(ctx context.Context, handle func(context.Context, []appcontext.Report) error, log *slog.Logger) *Batcher {
	return &Batcher{ctx: ctx, handle: handle, log: log, opened: make(chan struct{}), pending: map[appcontext.PairKey]appcontext.Report{}}
}

// Open allows batches to be handled. It is called once, when the shard's pairs are loaded:
// reports may arrive earlier.
func (b *Batcher) Open() { close(b.opened) }

// Add adds a report to the next batch.
func (b *Batcher) Add(_ context.Context, r appcontext.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending[r.Key] = r
	if !b.running && !b.closed && b.ctx.Err() == nil {
		b.running = true
		b.wg.Go(b.run)
	}
}

// run hands on batches until nothing is pending.
func (b *Batcher) run() {
	select {
	case <-b.opened:
	case <-b.ctx.Done():
	}
	for {
		_ = pause.For(b.ctx, Window)
		batch := b.next()
		if len(batch) == 0 {
			return
		}
		if err := b.handle(b.ctx, batch); err != nil && b.ctx.Err() == nil {
			b.log.Warn("reports not written", "err", err, "reports", len(batch))
			b.restore(batch)
			_ = pause.For(b.ctx, pair.FirstRetry)
		}
	}
}

// next takes the pending reports; none if the goroutine must end.
func (b *Batcher) next() []appcontext.Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := slices.Collect(maps.Values(b.pending))
	clear(b.pending)
	if b.ctx.Err() != nil {
		batch = nil
	}
	b.running = len(batch) > 0
	return batch
}

// restore puts a batch back, except for reports that a pending newer one replaces.
func (b *Batcher) restore(batch []appcontext.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range batch {
		if _, newer := b.pending[r.Key]; !newer {
			b.pending[r.Key] = r
		}
	}
}

// Wait waits for the goroutine to end; the context must have ended. Reports that are added
// later are dropped.
func (b *Batcher) Wait() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wg.Wait()
}
