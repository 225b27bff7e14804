package client

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Parts sends a request and calls each for every part of a multipart answer as it arrives, until each returns an error,
// which Parts returns. All parts together have at most MaxFileBytes. An answer that is not multipart is returned whole in
// the Response, whose Body is otherwise empty. Errors are those of Do; an answer that breaks off is Unavailable.
func (c *Client) Parts(ctx context.Context, r Request, each func(*multipart.Part) error) (*Response, error) {
	res, err := c.patient(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	out := &Response{Status: res.StatusCode, Header: res.Header}
	media, params, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || !out.OK() || !strings.HasPrefix(media, "multipart/") {
		return c.whole(ctx, r, res)
	}
	from := &partSource{from: res.Body, left: MaxFileBytes}
	parts := multipart.NewReader(from, params["boundary"])
	for {
		part, err := parts.NextPart()
		if err == io.EOF { // a broken answer has an error that wraps it
			return out, nil
		}
		if err == nil {
			err = each(part)
			if from.ended && errors.Is(err, io.ErrUnexpectedEOF) { // within the part
				from.err = err
			}
		} else if from.err == nil {
			from.err = err
		}
		switch {
		case errors.Is(from.err, errTooManyBytes):
			return out, errs.E(errs.TooLarge, r.Method, r.Path, from.err)
		case from.err != nil:
			return out, c.broken(ctx, r, from.err)
		case err != nil:
			return out, err
		}
	}
}

var errTooManyBytes = errors.New("the files are above 1 GiB")

// partSource bounds an answer, and remembers why it ended early.
type partSource struct {
	from  io.Reader
	left  int64
	err   error
	ended bool // as if it were whole
}

func (s *partSource) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	if s.left -= int64(n); s.left < 0 {
		err = errTooManyBytes
	}
	if s.ended = err == io.EOF; err != nil && !s.ended {
		s.err = err
	}
	return n, err
}
