package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// linesPerMinute is how many warnings and errors with the same message are written in a minute.
const linesPerMinute = 100

// maxMessages bounds the lines that are counted. Messages are constants of the program and of its
// libraries, so there are fewer; errors of connections differ by their ports.
const maxMessages = 2000

// Limit returns a handler that writes at most linesPerMinute warnings and errors with the same
// message in a minute, and then one line with the number of those it left out. So neither a user
// nor a fault can fill the disk with lines.
func Limit(next slog.Handler) slog.Handler {
	return limitHandler{next, &lineCounts{next: next, most: linesPerMinute, alike: func(r slog.Record) string { return r.Message }, lines: map[string]lineCount{}}}
}

// LimitRepeats returns a handler as Limit does, for a library that logs each failure of many: it writes one warning or error with
// the same message and err in a minute.
func LimitRepeats(next slog.Handler) slog.Handler {
	return limitHandler{next, &lineCounts{next: next, most: 1, alike: messageAndErr, lines: map[string]lineCount{}}}
}

func messageAndErr(r slog.Record) string {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "err" {
			return true
		}
		text += ": " + a.Value.String()
		return false
	})
	return text
}

type limitHandler struct {
	slog.Handler
	counts *lineCounts
}

// WithAttrs returns a handler that counts with this one.
func (l limitHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limitHandler{l.Handler.WithAttrs(attrs), l.counts}
}

// WithGroup returns a handler that counts with this one.
func (l limitHandler) WithGroup(name string) slog.Handler {
	return limitHandler{l.Handler.WithGroup(name), l.counts}
}

// Handle writes a record unless too many are like it.
func (l limitHandler) Handle(ctx context.Context, r slog.Record) error {
	if !l.counts.admit(ctx, r) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// lineCounts counts the lines of the current minute that are alike.
type lineCounts struct {
	next  slog.Handler
	most  int                      // lines that are alike, in a minute
	alike func(slog.Record) string // equal for records that are alike

	mu    sync.Mutex
	since time.Time            // of the minute; guarded by mu
	lines map[string]lineCount // guarded by mu
}

type lineCount struct{ written, left int }

// admit counts a record, and reports whether it may be written. At the first line of a new minute it
// writes what the last one left out.
func (c *lineCounts) admit(ctx context.Context, r slog.Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Time.Sub(c.since).Abs() >= time.Minute {
		c.sumUpLocked(ctx, r.Time)
	}
	if r.Level < slog.LevelWarn {
		return true
	}
	line := c.alike(r)
	n, known := c.lines[line]
	if !known && len(c.lines) >= maxMessages {
		return true
	}
	admitted := n.written < c.most
	if admitted {
		n.written++
	} else {
		n.left++
	}
	c.lines[line] = n
	return admitted
}

func (c *lineCounts) sumUpLocked(ctx context.Context, now time.Time) {
	for line, n := range c.lines {
		if n.left == 0 {
			continue
		}
		sum := slog.NewRecord(now, slog.LevelWarn, "lines were left out: there were too many like this", 0)
		sum.AddAttrs(slog.String("line", line), slog.Int("lines", n.left), slog.Duration("took", now.Sub(c.since)))
		_ = c.next.Handle(ctx, sum)
	}
	c.since = now
	clear(c.lines)
}
