package rsync

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// gather is how long reports are collected before they are written together.
const gather = 200 * time.Millisecond

// reporter gathers what clusters report and has it written, once it is open. The latest
// report of a pair wins.
type reporter struct {
	ctx  context.Context
	heed func(context.Context, []appcontext.Report) error
	log  *slog.Logger

	opened chan struct{} // closed when reports may be written

	mu      sync.Mutex
	pending map[appcontext.PairKey]appcontext.Report
	active  bool
	over    bool
	wg      sync.WaitGroup
}

func newReporter(ctx context.Context, heed func(context.Context, []appcontext.Report) error, log *slog.Logger) *reporter {
	return &reporter{ctx: ctx, heed: heed, log: log, opened: make(chan struct{}), pending: map[appcontext.PairKey]appcontext.Report{}}
}

// open has reports written from now on. It is called once, when the pairs that they are of
// are known: sources begin when a shard does, and may be faster than reading its pairs.
func (r *reporter) open() { close(r.opened) }

// take keeps a report for the next write.
func (r *reporter) take(_ context.Context, report appcontext.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending[report.Key] = report
	if !r.active && !r.over && r.ctx.Err() == nil {
		r.active = true
		r.wg.Go(r.write)
	}
}

// write writes until nothing is pending. What cannot be written is tried again,
// unless a newer report has come.
func (r *reporter) write() {
	select {
	case <-r.opened:
	case <-r.ctx.Done():
	}
	for {
		queue.Pause(r.ctx, gather)
		batch := r.collect()
		if len(batch) == 0 {
			return
		}
		if err := r.heed(r.ctx, batch); err != nil && r.ctx.Err() == nil {
			r.log.Warn("reports not written", "err", err, "reports", len(batch))
			r.restore(batch)
			queue.Pause(r.ctx, pair.FirstRetry)
		}
	}
}

func (r *reporter) collect() []appcontext.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch := slices.Collect(maps.Values(r.pending))
	clear(r.pending)
	if r.ctx.Err() != nil {
		batch = nil
	}
	r.active = len(batch) > 0
	return batch
}

func (r *reporter) restore(batch []appcontext.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range batch {
		if _, newer := r.pending[b.Key]; !newer {
			r.pending[b.Key] = b
		}
	}
}

// wait returns when the last write is over; the context must have ended. Reports may
// still come.
func (r *reporter) wait() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.wg.Wait()
}
