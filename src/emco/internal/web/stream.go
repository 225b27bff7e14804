package web

import (
	"context"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
)

// patience is how long a client may take to receive one document of a stream.
const patience = 30 * time.Second

type drainKey struct{}

// draining returns a channel that is closed when the server that serves the request of
// ctx begins to stop. It is nil, which is never closed, if no server of ours serves it.
func draining(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(drainKey{}).(chan struct{})
	return c
}

// Streams bounds the answers that go on until the client leaves.
type Streams struct{ slots chan struct{} }

// NewStreams allows n streams at the same time.
func NewStreams(n int) *Streams { return &Streams{make(chan struct{}, n)} }

// Feed hands the documents of a stream to send, one after the other. It returns nil when all are sent, or when ctx
// ends and the stream may end anywhere. An error of send means that the client has left or reads too slowly.
// If the first document may take its time, the feed hands nil to send before: the client gets the header at once, and knows that the stream is open.
type Feed func(ctx context.Context, send func(document []byte) error) error

// Serve answers with the documents of feed, one a line (application/x-ndjson). The
// context of feed ends when the client leaves or the server stops. A client that takes
// more than half a minute for one document is cut off. Throttled if too many streams
// are open; that, and what feed returns before it has sent anything, is not answered yet.
// An error of feed after that cuts the answer off, so that clients see that it is incomplete.
func (s *Streams) Serve(w http.ResponseWriter, r *http.Request, feed Feed) error {
	return s.serve(w, r, "application/x-ndjson", feed)
}

// ServeEvents is Serve for server-sent events (text/event-stream): each document of feed is an
// event with a line end, and an empty line follows it.
func (s *Streams) ServeEvents(w http.ResponseWriter, r *http.Request, feed Feed) error {
	return s.serve(w, r, "text/event-stream", feed)
}

func (s *Streams) serve(w http.ResponseWriter, r *http.Request, kind string, feed Feed) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		return &errs.Error{Kind: errs.Throttled, Err: errTooMany, After: 10 * time.Second}
	}
	leaveShare(r)
	ctx, cancel := context.WithCancel(readpoint.Without(r.Context())) // each document is of its own moment
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer cancel()
		waitForEnd(ctx)
	}()
	defer func() { cancel(); <-over }()
	out := stream{w: w, kind: kind, control: http.NewResponseController(w)}
	_ = out.control.SetReadDeadline(time.Time{}) // else ctx ends with the time to read a request
	err := feed(ctx, out.send)
	if err == nil || !out.begun {
		return err
	}
	if ctx.Err() == nil {
		record(r, err)
	}
	panic(http.ErrAbortHandler)
}

type recheckKey struct{}

// WithRecheck has the stream that answers the request of ctx ask a question each second; it ends with an error.
func WithRecheck(ctx context.Context, ask func() error) context.Context {
	return context.WithValue(ctx, recheckKey{}, ask)
}

// recheckPause is how long a stream goes on at most when its client may not read it any more.
const recheckPause = time.Second

// waitForEnd returns when a stream must end: the server stops, the client has left, or it may no longer read.
func waitForEnd(ctx context.Context) {
	ask, _ := ctx.Value(recheckKey{}).(func() error)
	var tick <-chan time.Time
	if ask != nil {
		t := time.NewTicker(recheckPause)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-draining(ctx):
			return
		case <-ctx.Done():
			return
		case <-tick:
			if ask() != nil {
				return
			}
		}
	}
}

var errTooMany = errs.New(errs.Throttled, "too many streams are open; close some, or ask again later")

// stream is an answer of many lines.
type stream struct {
	w       http.ResponseWriter
	kind    string // media type
	control *http.ResponseController
	begun   bool
}

// send sends a document, or only the header if the document is nil and nothing was sent before.
func (s *stream) send(document []byte) error {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.kind)
		s.w.Header().Set("X-Accel-Buffering", "no") // proxies must pass each line on at once
		s.w.WriteHeader(http.StatusOK)
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(patience))
	if document == nil {
		return s.control.Flush()
	}
	if _, err := s.w.Write(append(document[:len(document):len(document)], '\n')); err != nil {
		return err
	}
	return s.control.Flush()
}
