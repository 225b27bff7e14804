package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

// reconnect is the pause before a new attempt at a stream.
const reconnect = time.Second

// ErrEnough ends a stream: a function that reads lines returns it after the last requested one.
var ErrEnough = errors.New("enough")

// CountLine counts a line. It returns ErrEnough if the line was the last of n; 0 is unlimited.
func CountLine(lines *int, n int) error {
	if *lines++; *lines == n {
		return ErrEnough
	}
	return nil
}

// ErrPlain is the error of a server that answers a document instead of a stream.
var ErrPlain = errors.New("the server does not stream")

// Lines reads lines until ctx ends. When the server ends the stream or is away for a while, it
// starts a new one; path returns the path of each request. The error of a server that was never
// reached is that of the connection; ErrPlain after an answer that is no stream.
func Lines(ctx context.Context, notes io.Writer, c *client.Client, path func() string, each func(line []byte) error) error {
	reached, noted := false, ""
	for {
		r := client.Request{Method: http.MethodGet, Path: path(), Accept: client.LinesType + ", application/json"}
		res, err := c.Lines(ctx, r, each)
		if err == nil {
			err = res.Err(r.Method, r.Path)
		}
		switch {
		case errors.Is(err, ErrEnough), ctx.Err() != nil:
			return nil
		case err == nil && !res.Streamed():
			return ErrPlain
		case err != nil && !errs.Is(err, errs.Unavailable) && !errs.Is(err, errs.Throttled),
			err != nil && !reached && res == nil:
			return err
		}
		reached = true
		why := "the stream ended"
		if err != nil {
			why = printable.Line(err.Error())
		}
		if why != noted || err == nil {
			fmt.Fprintf(notes, "note: %s; reconnecting\n", why)
		}
		noted = why
		if Pause(ctx, max(reconnect, errs.RetryAfter(err))) != nil {
			return nil
		}
	}
}

// Within bounds ctx by a time; 0 is unlimited.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// Interval is the interval of polls of a server without streams.
const Interval = 2 * time.Second

// Pause waits; its error is that of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
