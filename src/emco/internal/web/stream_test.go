package web_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// counting sends "1", and a further number each time something comes from more.
func counting(more <-chan struct{}) web.Feed {
	return func(ctx context.Context, send func([]byte) error) error {
		for n := byte('1'); ; n++ {
			if err := send([]byte{n}); err != nil {
				return err
			}
			select {
			case <-more:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// started serves a handler until the end of the test, or until stop is called, which
// returns the server's error.
func started(t *testing.T, h http.Handler) (url string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	server := web.Server{Log: slog.New(slog.DiscardHandler), Handler: web.Wrap(slog.New(slog.DiscardHandler), h), Limits: web.DefaultLimits()}
	go func() { ended <- server.Serve(ctx, l) }()
	return "http://" + l.Addr().String(), func() error { cancel(); return <-ended }
}

func open(t *testing.T, ctx context.Context, url string) (*http.Response, *bufio.Reader) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Body.Close() })
	return a, bufio.NewReader(a.Body)
}

func TestStreamsSendLinesUntilTheServerStops(t *testing.T) {
	t.Parallel()
	streams, more := web.NewStreams(1), make(chan struct{})
	url, stop := started(t, web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return streams.Serve(w, r, counting(more))
	}))
	a, lines := open(t, t.Context(), url)
	if got := a.Header.Get("Content-Type"); got != "application/x-ndjson" {
		t.Errorf("content type %q", got)
	}
	for _, want := range []string{"1\n", "2\n", "3\n"} {
		if line, err := lines.ReadString('\n'); line != want || err != nil {
			t.Fatalf("got %q, %v; want %q", line, err, want)
		}
		if want != "3\n" {
			more <- struct{}{}
		}
	}
	if err := stop(); err != nil { // it waits for running requests: the stream must end
		t.Errorf("the server returned %v", err)
	}
	if line, err := lines.ReadString('\n'); line != "" || !errors.Is(err, io.EOF) {
		t.Errorf("after the end: got %q, %v", line, err)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	streams, left := web.NewStreams(1), make(chan struct{})
	url, stop := started(t, web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return streams.Serve(w, r, func(ctx context.Context, send func([]byte) error) error {
			defer func() { left <- struct{}{} }()
			return counting(nil)(ctx, send)
		})
	}))
	ctx, leave := context.WithCancel(t.Context())
	if _, lines := open(t, ctx, url); !begins(lines) {
		t.Fatal("the first stream did not begin")
	}
	second, _ := open(t, t.Context(), url)
	if second.StatusCode != http.StatusTooManyRequests || second.Header.Get("Retry-After") != "10" {
		t.Errorf("a second stream is answered %d, Retry-After %q", second.StatusCode, second.Header.Get("Retry-After"))
	}
	leave()
	<-left // the feed has seen that its client left; its place is free when Serve returns
	for status := 0; status != http.StatusOK; {
		a, _ := open(t, t.Context(), url)
		status = a.StatusCode
	}
	go func() { <-left }()
	if err := stop(); err != nil {
		t.Errorf("the server returned %v", err)
	}
}

func begins(lines *bufio.Reader) bool {
	line, err := lines.ReadString('\n')
	return err == nil && line == "1\n"
}

// A stream without a document so far has a header, so its client knows that the stream is open.
func TestAStreamWithoutADocumentHasItsHeader(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	url, stop := started(t, web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return web.NewStreams(1).Serve(w, r, func(ctx context.Context, send func([]byte) error) error {
			if err := send(nil); err != nil {
				return err
			}
			<-more
			return send([]byte("1"))
		})
	}))
	a, lines := open(t, t.Context(), url) // returns when the header is there
	if kind := a.Header.Get("Content-Type"); a.StatusCode != http.StatusOK || kind != "application/x-ndjson" {
		t.Errorf("answered %d, %q", a.StatusCode, kind)
	}
	close(more)
	if line, err := lines.ReadString('\n'); line != "1\n" || err != nil {
		t.Errorf("the first line: %q, %v", line, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestStreamsThatFailBeforeTheyBeginAreAnswered(t *testing.T) {
	t.Parallel()
	h := web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return web.NewStreams(1).Serve(w, r, func(context.Context, func([]byte) error) error {
			return errs.New(errs.NotFound, "there is none")
		})
	})
	if w, _ := serve(h, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != http.StatusNotFound {
		t.Errorf("answered %d", w.Code)
	}
}

// A stream that fails midway does not end like a complete one, also when the reason is that the server stops.
func TestStreamsThatFailLaterAreCutOffAndLogged(t *testing.T) {
	t.Parallel()
	log := &logLines{}
	begun := make(chan struct{}, 1)
	server := httptest.NewServer(web.Wrap(logTo(log), web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return web.NewStreams(1).Serve(w, r, func(ctx context.Context, send func([]byte) error) error {
			return errors.Join(send([]byte("1")), errors.New("it broke"))
		})
	})))
	a, lines := open(t, t.Context(), server.URL)
	if line, err := lines.ReadString('\n'); a.StatusCode != http.StatusOK || line != "1\n" || err != nil {
		t.Errorf("the first line: %d %q, %v", a.StatusCode, line, err)
	}
	if line, err := lines.ReadString('\n'); line != "" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("after the failure: got %q, %v", line, err)
	}
	server.Close() // waits for the handler
	if !strings.Contains(log.String(), "it broke") {
		t.Errorf("log %s", log.String())
	}

	url, stop := started(t, web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return web.NewStreams(1).Serve(w, r, func(ctx context.Context, send func([]byte) error) error {
			err := send([]byte("1"))
			begun <- struct{}{}
			<-ctx.Done()
			return errors.Join(err, ctx.Err()) // there is more to send
		})
	}))
	_, lines = open(t, t.Context(), url)
	<-begun
	if err := stop(); err != nil {
		t.Errorf("the server returned %v", err)
	}
	if text, err := io.ReadAll(lines); string(text) != "1\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a server that stops: got %q, %v", text, err)
	}
}
