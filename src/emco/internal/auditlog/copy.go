package auditlog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// Copy keeps a copy of all lines in files: each line at least once, those of a stream in order.
type Copy struct {
	AuditLog *Log
	File     string
	Bytes    int64 // at which the file is full
	Files    int   // full files to keep: File.1 is the newest
	Log      *slog.Logger

	size int64 // of File; only the run goroutine
}

// copyEvery is the pause between two looks for new lines.
const copyEvery = time.Second

// Name is "audit copy".
func (c *Copy) Name() string { return "audit copy" }

// Ready returns nil: the log itself is in etcd.
func (c *Copy) Ready() error { return nil }

// Run copies lines until ctx ends.
func (c *Copy) Run(ctx context.Context) error {
	var last error
	for ctx.Err() == nil {
		err := c.Once(ctx)
		if err != nil && ctx.Err() == nil && (last == nil || last.Error() != err.Error()) {
			c.Log.Error("the audit log cannot be copied; it is tried again", "file", c.File, "err", err)
		}
		last = err
		_ = pause.For(ctx, copyEvery)
	}
	return nil
}

// Once copies the lines that are new.
func (c *Copy) Once(ctx context.Context) error { return c.AuditLog.forward(ctx, c, c.append) }

// append appends new lines of a stream.
// After an error it keeps the position of the last line that is in the file.
func (c *Copy) append(ctx context.Context, n newLines, reached func(seq int64) error) (err error) {
	f, err := c.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, copyBuffer)
	last, written := n.after, n.after // the last line, and the last one that is in the file
	flush := func() error {
		if err := w.Flush(); err != nil {
			return err
		}
		written = last
		return nil
	}
	err = c.AuditLog.each(ctx, n.blocks, n.after, n.rev, func(seq int64, line []byte) (err error) {
		full := c.size > 0 && c.size+int64(len(line)) > c.Bytes
		if full || len(line) >= w.Available() { // whole lines reach the file
			if err := flush(); err != nil {
				return err
			}
		}
		if full {
			if f, err = c.next(f); err != nil {
				return err
			}
			w.Reset(f)
		}
		_, _ = w.Write(line) // Flush returns the error
		c.size += int64(len(line)) + 1
		last = seq
		return w.WriteByte('\n')
	})
	err = errors.Join(err, flush())
	if unsynced := f.Sync(); unsynced != nil || written == n.after {
		return errors.Join(err, unsynced)
	}
	return errors.Join(err, reached(written))
}

// next puts a full file away and returns a new one; after an error, the file that is open.
func (c *Copy) next(full *os.File) (*os.File, error) {
	if err := full.Sync(); err != nil {
		return full, err
	}
	if err := c.rotate(); err != nil {
		return full, err
	}
	f, err := c.open()
	if err != nil {
		return full, err
	}
	return f, full.Close()
}

// copyBuffer is how much is written to the file at once, in bytes.
const copyBuffer = 64 << 10

// open opens the file at its end. A line that was cut, because the process was killed while it wrote it, is removed.
func (c *Copy) open() (f *os.File, err error) {
	if f, err = os.OpenFile(c.File, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if c.size, err = endOfLines(f, info.Size()); err != nil || c.size == info.Size() {
		return f, err
	}
	return f, f.Truncate(c.size)
}

// endOfLines returns the length of a file up to the end of its last whole line.
func endOfLines(f io.ReaderAt, size int64) (int64, error) {
	block := make([]byte, copyBuffer)
	for size > 0 {
		from := max(0, size-int64(len(block)))
		part := block[:size-from]
		if _, err := f.ReadAt(part, from); err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(part, '\n'); at >= 0 {
			return from + int64(at) + 1, nil
		}
		size = from
	}
	return 0, nil
}

// rotate makes room for a new file.
func (c *Copy) rotate() error {
	name := func(n int) string { return fmt.Sprintf("%s.%d", c.File, n) }
	for n := c.Files - 1; n > 0; n-- {
		if err := os.Rename(name(n), name(n+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(c.File, name(1))
}

// positions is the file with the number of the last copied line of each stream.
func (c *Copy) positions() string { return c.File + ".position" }

func (c *Copy) read(context.Context) (map[string]int64, error) {
	at := map[string]int64{}
	text, err := os.ReadFile(c.positions())
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err == nil && json.Unmarshal(text, &at) != nil {
		return map[string]int64{}, nil // it was cut by a loss of power: lines are copied twice
	}
	return at, err
}

func (c *Copy) write(_ context.Context, at map[string]int64) error {
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	next := c.positions() + ".next"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err // the positions of before stay
	}
	return os.Rename(next, c.positions()) // if a loss of power undoes it, lines are copied twice
}
