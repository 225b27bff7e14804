package auditlog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// Run writes lines until ctx ends, and then those that still wait.
func (t *Log) Run(ctx context.Context) error {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(goodbye, cancel) })()
	w := &writer{Log: t}
	upkept := make(chan struct{})
	go func() { defer close(upkept); t.upkeep(ctx) }()
	w.begin(writing, ctx)
	for ctx.Err() == nil {
		if group := t.take(ctx); len(group) > 0 {
			w.write(writing, group)
		}
	}
	<-upkept
	w.end(writing)
	return nil
}

// writer writes the lines of a Log; it belongs to the run goroutine.
type writer struct {
	*Log
	stream *stream // nil: none is owned
	began  bool    // the line that this process begins is written
}

// begin opens the first stream, and drops lines of the spool that are in it.
func (w *writer) begin(ctx, until context.Context) {
	for w.stream == nil && until.Err() == nil {
		if err := w.open(ctx); err != nil {
			w.failed(err)
			_ = pause.For(until, retry)
		}
	}
	if w.stream == nil {
		return
	}
	if w.spool != nil && w.stream.head.Spool == w.spool.id {
		w.mu.Lock()
		for len(w.waiting) > 0 && w.waiting[0].ordinal > 0 && w.waiting[0].ordinal <= w.stream.head.Upto {
			w.waiting = w.waiting[1:]
		}
		w.mu.Unlock()
	}
	w.failed(nil)
	w.emptySpool()
}

// open owns a stream and writes that this process begins, or goes on there because it lost its stream.
func (w *writer) open(ctx context.Context) error {
	s, err := openStream(ctx, w.o)
	if err != nil {
		return err
	}
	phase := audit.Start
	if w.began {
		phase = audit.Mark
	}
	heads, err := w.heads(ctx)
	if err == nil {
		err = s.write(ctx, []*pendingLine{{line: audit.Line{Time: w.o.Now().UTC(), Phase: phase, Reason: w.o.Holder, Heads: heads}}}, "")
	}
	if err != nil {
		return errors.Join(err, s.own.Release(ctx))
	}
	w.stream, w.began = s, true
	w.o.OnLines(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Log.stream = s.name
	return nil
}

// write writes a group, and tries again until it is written or ctx ends.
func (w *writer) write(ctx context.Context, group []*pendingLine) {
	lines := slices.DeleteFunc(slices.Clone(group), func(p *pendingLine) bool { return p.line.Phase == "" })
	id := ""
	if w.spool != nil {
		id = w.spool.id
	}
	for {
		err := w.writeOnce(ctx, lines, id)
		w.failed(err)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			w.answer(group, unavailable(err))
			return
		}
		_ = pause.For(ctx, retry)
	}
	w.o.OnLines(len(lines))
	w.answer(group, nil)
	w.emptySpool()
	if w.stream.filled() {
		select {
		case w.full <- struct{}{}:
		default: // upkeep is behind, and goes on from time to time
		}
	}
}

// writeOnce writes a group. If another process took the stream, it writes the group to another one at once: no request
// is refused meanwhile.
func (w *writer) writeOnce(ctx context.Context, group []*pendingLine, spool string) error {
	if w.stream == nil {
		if err := w.open(ctx); err != nil {
			return err
		}
	}
	if len(group) == 0 {
		return nil
	}
	err := w.stream.write(ctx, group, spool)
	if !errors.Is(err, errMoved) {
		return err
	}
	w.o.Log.Warn("another process took the stream of the audit log that this one wrote; it goes on with another stream", "stream", w.stream.name)
	w.leave(ctx)
	if err := w.open(ctx); err != nil {
		return err
	}
	return w.stream.write(ctx, group, spool)
}

// leave gives the stream up.
func (w *writer) leave(ctx context.Context) {
	w.mu.Lock()
	w.Log.stream = ""
	w.mu.Unlock()
	_ = w.stream.own.Release(ctx)
	w.stream = nil
}

// emptySpool empties the spool when all its lines are in etcd.
func (w *writer) emptySpool() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spool == nil || len(w.waiting) > 0 || w.spool.used < spoolBytes/4 {
		return
	}
	if err := w.spool.empty(); err != nil {
		w.o.Log.Warn("the spool of the audit log cannot be emptied", "err", err)
	}
}

// end writes what waits and that the process stops.
func (w *writer) end(ctx context.Context) {
	w.mu.Lock()
	w.closed = true
	w.waiting = append(w.waiting, &pendingLine{line: audit.Line{Time: w.o.Now().UTC(), Phase: audit.Stop, Reason: w.o.Holder}})
	w.mu.Unlock()
	for ctx.Err() == nil && w.stream != nil {
		group := w.next()
		if len(group) == 0 {
			break
		}
		w.write(ctx, group)
	}
	for group := w.next(); len(group) > 0; group = w.next() {
		w.answer(group, unavailable(errStops))
	}
	if w.stream != nil {
		w.leave(context.WithoutCancel(ctx))
	}
	if w.spool != nil {
		_ = w.spool.close()
	}
}
