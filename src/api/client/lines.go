package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// LinesType is the media type of a stream of JSON documents, one per line.
const LinesType = "application/x-ndjson"

// Lines sends a request and calls each for every line of a streamed answer as it arrives,
// until the server ends the answer, ctx ends, or each returns an error, which Lines
// returns. A line above MaxBytes is TooLarge. An answer that is no stream is returned whole
// in the Response, whose Body is otherwise empty. Errors are those of Do; a stream that
// breaks off is Unavailable.
func (c *Client) Lines(ctx context.Context, r Request, each func(line []byte) error) (*Response, error) {
	res, err := c.patient(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	out := &Response{Status: res.StatusCode, Header: res.Header}
	if !out.Streamed() {
		return c.whole(ctx, r, res)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, int(c.opts.MaxBytes))
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := each(lines.Bytes()); err != nil {
			return out, err
		}
	}
	err = lines.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return out, errs.E(errs.TooLarge, r.Method, r.Path, fmt.Errorf("a line is above %d bytes", c.opts.MaxBytes))
	case err != nil:
		return out, c.broken(ctx, r, err)
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	}
	return out, nil
}

// Streamed reports whether an answer is a stream of lines.
func (r *Response) Streamed() bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == LinesType && r.Status == http.StatusOK
}
