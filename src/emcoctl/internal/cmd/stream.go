package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

// reconnect is the pause before a new attempt at a stream.
const reconnect = time.Second

// errEnough ends a stream after the requested number of lines.
var errEnough = errors.New("enough")

// enough counts a line; errEnough if it was the last of n; 0 is unlimited.
func enough(lines *int, n int) error {
	if *lines++; *lines == n {
		return errEnough
	}
	return nil
}

// errPlain is the error of a server that answers a document instead of a stream.
var errPlain = errors.New("the server does not stream")

// streamLines reads lines until ctx ends. When the server ends the stream or is unreachable, it
// starts a new one; path returns the path of each request. errPlain after an answer that is
// no stream.
func streamLines(ctx context.Context, notes io.Writer, c *client.Client, path func() string, each func(line []byte) error) error {
	for lost := false; ; lost = true {
		if lost {
			fmt.Fprintln(notes, "note: the stream ended; reconnecting")
		}
		r := client.Request{Method: http.MethodGet, Path: path(), Accept: client.LinesType + ", application/json"}
		res, err := c.Lines(ctx, r, each)
		if err == nil {
			err = res.Err(r.Method, r.Path)
		}
		switch {
		case errors.Is(err, errEnough), ctx.Err() != nil:
			return nil
		case err == nil && !res.Streamed():
			return errPlain
		case err != nil && !errs.Is(err, errs.Unavailable) && !errs.Is(err, errs.Throttled):
			return err
		}
		if pause(ctx, max(reconnect, errs.RetryAfter(err))) != nil {
			return nil
		}
	}
}

// within bounds ctx by a time; 0 is unlimited.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
