package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
)

// HeaderRequestID is the header that carries the id of a request, in and out.
const HeaderRequestID = "X-Request-Id"

var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// maxRequestID is the longest id that a client may choose.
const maxRequestID = 64

// requestTrace is what is known of a request while it is served.
type requestTrace struct {
	id    string
	err   error
	quiet bool
	route string            // template of the path; empty: no route
	vars  map[string]string // of the path, escaped, if Ahead has found them

	span    *tracing.Span // nil: it is not traced
	leave   func()        // ends the use of the project's slot; nil without one
	observe func(Served)  // called when the request is answered; may be nil
}

type traceKey struct{}

func traceOf(ctx context.Context) *requestTrace {
	t, _ := ctx.Value(traceKey{}).(*requestTrace)
	return t
}

// RequestID returns the id of the request that ctx belongs to, or "".
func RequestID(ctx context.Context) string {
	if t := traceOf(ctx); t != nil {
		return t.id
	}
	return ""
}

// failed reports whether something is wrong on our side. Being too busy for one of many is
// not: there would be a line for each.
func (t *requestTrace) failed() bool {
	if t.err == nil {
		return false
	}
	status := statusOf(t.err)
	return status == http.StatusInternalServerError || status > http.StatusInternalServerError && !t.quiet
}

// Quiet has a request logged at level debug, unless there is an error of ours: there are
// very many of its kind.
func Quiet(r *http.Request) {
	if t := traceOf(r.Context()); t != nil {
		t.quiet = true
	}
}

// record leaves err for the request's log line.
func record(r *http.Request, err error) {
	if t := traceOf(r.Context()); t != nil {
		t.err = err
	}
}

// Served is a request that was answered.
type Served struct {
	Route  string // template of the path, such as /v2/projects/{project}; "none" if there is no such path
	Method string
	Status int
	Took   time.Duration
}

// known are the methods that routes have.
var known = []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost, http.MethodPut}

// served describes a request. Clients choose neither routes nor methods, so their number is
// bounded.
func (t *requestTrace) served(r *http.Request, w *recorder, took time.Duration) Served {
	s := Served{Route: cmp.Or(t.route, "none"), Method: r.Method, Status: w.code(), Took: took}
	if !slices.Contains(known, s.Method) {
		s.Method = "other"
	}
	return s
}

// Observed calls observe for each request that Wrap has answered. It must be inside of Wrap.
func Observed(observe func(Served), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t := traceOf(r.Context()); t != nil {
			t.observe = observe
		}
		next.ServeHTTP(w, r)
	})
}

// setRoute records the template of a request's path.
func setRoute(r *http.Request, template string) {
	if t := traceOf(r.Context()); t != nil {
		t.route = template
	}
}

// Wrap gives each request an id and security headers, answers panics with 500, and
// writes one log line when the request is done. The line holds neither body nor
// query: both may carry secrets.
func Wrap(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		t := &requestTrace{id: requestID(r)}
		r = r.WithContext(readpoint.With(context.WithValue(r.Context(), traceKey{}, t)))
		header := w.Header()
		header.Set(HeaderRequestID, t.id)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		seen, body := &recorder{ResponseWriter: w}, r.Body
		defer func() {
			aborted := recovered(seen, r, recover())
			took := time.Since(start)
			if t.err != nil && !aborted && statusOf(t.err) != http.StatusRequestTimeout {
				discard(w, r, body)
			}
			logRequest(log, r, seen, t, took)
			served := t.served(r, seen, took)
			if t.observe != nil {
				t.observe(served)
			}
			t.endSpan(served)
			if aborted {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(seen, r)
	})
}

// Bounds of what is read of a body after its refusal.
const (
	maxDiscarded = 64 << 20
	discardTime  = 10 * time.Second
)

// discard reads the rest of a body that was refused: if the connection ended while the client
// still sends, it would see a reset and not the answer.
func discard(w http.ResponseWriter, r *http.Request, body io.Reader) {
	if body == nil || r.ContentLength == 0 || r.Header.Get("Expect") != "" {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(discardTime))
	_, _ = io.CopyN(io.Discard, body, maxDiscarded)
}

// requestID returns the id that the client chose, if it is harmless, or a new one.
func requestID(r *http.Request) string {
	if id := r.Header.Get(HeaderRequestID); len(id) <= maxRequestID && requestIDPattern.MatchString(id) {
		return id
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return hex.EncodeToString(b[:])
}

// recovered answers a panic. It reports whether the connection must be cut, because
// an answer had begun.
func recovered(w *recorder, r *http.Request, cause any) (abort bool) {
	if cause == nil {
		return false
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	err := fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
	if w.status != 0 {
		record(r, err)
		return true
	}
	fail(w, r, err)
	return false
}

func logRequest(log *slog.Logger, r *http.Request, w *recorder, t *requestTrace, took time.Duration) {
	level := slog.LevelInfo
	if t.quiet {
		level = slog.LevelDebug
	}
	if t.failed() {
		level = slog.LevelError
	}
	if !log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.Method),
		slog.String("path", r.URL.EscapedPath()),
		slog.Int("status", w.code()),
		slog.Int64("bytes", w.bytes),
		slog.Duration("took", took),
		slog.String("request", t.id),
		slog.String("remote", r.RemoteAddr),
	}
	if t.span != nil {
		attrs = append(attrs, slog.String("trace", t.span.Trace()))
	}
	if t.err != nil {
		attrs = append(attrs, slog.String("kind", errs.KindOf(t.err).String()), slog.String("err", t.err.Error()))
	}
	log.LogAttrs(r.Context(), level, "request", attrs...)
}

// recorder notes status and size of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader notes the first final status.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write notes the size.
func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) code() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}
