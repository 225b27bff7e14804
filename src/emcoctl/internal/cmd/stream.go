package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

// reconnect is how long to wait before a stream that broke off is asked for again.
const reconnect = time.Second

// errEnough ends a stream when all lines that were asked for have come.
var errEnough = errors.New("enough")

// enough counts a line; errEnough if it was the last of n, of which 0 is for ever.
func enough(lines *int, n int) error {
	if *lines++; *lines == n {
		return errEnough
	}
	return nil
}

// errPlain says that a server answered one document where a stream was asked for.
var errPlain = errors.New("the server does not stream")

// stream reads lines until ctx ends, and again whenever the server ends them or is away:
// path gives the request anew each time. errPlain after an answer that is no stream.
func (a *app) stream(ctx context.Context, c *client.Client, path func() string, each func(line []byte) error) error {
	for lost := false; ; lost = true {
		if lost {
			fmt.Fprintln(a.sys.Err, "note: the stream ended; asking again")
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

// within bounds ctx by a time; 0 is for ever.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
