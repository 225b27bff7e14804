package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing/otlp"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing/tracingtest"
)

const foreign = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func tracer(t *testing.T, endpoint string, ratio float64, log io.Writer) *tracing.Tracer {
	t.Helper()
	return tracerThatWaits(t, tracingtest.Patience, endpoint, ratio, log)
}

// tracerThatWaits waits at most so long for the last spans when it ends; 0: as the program does.
func tracerThatWaits(t *testing.T, farewell time.Duration, endpoint string, ratio float64, log io.Writer) *tracing.Tracer {
	t.Helper()
	exporter, err := otlp.Open(endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := tracing.New(tracing.Options{Exporter: exporter, Endpoint: endpoint, Ratio: ratio, Service: "emco", Farewell: farewell, Log: slog.New(slog.NewTextHandler(log, nil))})
	t.Cleanup(out.Close)
	return out
}

// Another process continues a trace by the stored text alone.
func TestATraceGoesOnInAnotherProcess(t *testing.T) {
	t.Parallel()
	c := tracingtest.Serve(t)
	first, second := tracer(t, c.Endpoint, 1, io.Discard), tracer(t, c.Endpoint, 0, io.Discard)
	ctx, request := first.Request(t.Context(), "", false)
	stored := tracing.Parent(ctx)
	request.End(nil)
	first.Close()
	later, work := second.Continue(t.Context(), stored, "work", slog.String("text", strings.Repeat("x", 1000)))
	_, part := second.Child(later, "part", slog.Int("number", 7))
	part.End(errs.New(errs.Conflict, "planted"))
	work.End(nil)
	second.Close()
	top, below, lowest := c.One(t, "request"), c.One(t, "work"), c.One(t, "part")
	if top.Parent != "" || below.Parent != top.ID || lowest.Parent != below.ID || below.Trace != top.Trace || lowest.Trace != top.Trace {
		t.Errorf("not one trace: %+v, %+v, %+v", top, below, lowest)
	}
	if tracing.ID(stored) != top.Trace {
		t.Errorf("%s is not of trace %s", stored, top.Trace)
	}
	if len(below.Facts["text"]) != 256 || lowest.Facts["number"] != "7" {
		t.Errorf("the facts are %v and %v", below.Facts, lowest.Facts)
	}
	if lowest.Failure != errs.Conflict.String() {
		t.Errorf("the failure is %q: it must be the kind, and not the text", lowest.Failure)
	}
}

// A known caller decides that its trace goes on; what others send is a link to a trace that begins here.
func TestTheParentOfAnUnknownCallerIsALink(t *testing.T) {
	t.Parallel()
	c := tracingtest.Serve(t)
	all, none := tracer(t, c.Endpoint, 1, io.Discard), tracer(t, c.Endpoint, 0, io.Discard)
	for _, tt := range []struct {
		name     string
		tracer   *tracing.Tracer
		parent   string
		known    bool
		recorded bool
	}{
		{"known", none, foreign, true, true},
		{"known, not recorded", all, strings.TrimSuffix(foreign, "1") + "0", true, false},
		{"unknown", all, foreign, false, true},
		{"unknown, by ratio", none, foreign, false, false},
		{"malformed", all, "00-0-0-01", true, true},
		{"none", none, "", true, false},
	} {
		ctx, span := tt.tracer.Request(t.Context(), tt.parent, tt.known)
		span.Rename(tt.name)
		span.End(nil)
		if (span != nil) != tt.recorded || (tracing.Parent(ctx) != "") != tt.recorded {
			t.Errorf("%s: span %v, parent %q", tt.name, span, tracing.Parent(ctx))
		}
	}
	all.Close()
	none.Close()
	known, unknown, malformed := c.One(t, "known"), c.One(t, "unknown"), c.One(t, "malformed")
	id := tracing.ID(foreign)
	if known.Trace != id || known.Parent != "b7ad6b7169203331" || len(known.Links) > 0 {
		t.Errorf("known: %+v", known)
	}
	if unknown.Trace == id || unknown.Parent != "" || len(unknown.Links) != 1 || unknown.Links[0] != id {
		t.Errorf("unknown: %+v", unknown)
	}
	if malformed.Parent != "" || len(malformed.Links) > 0 {
		t.Errorf("malformed: %+v", malformed)
	}
}

// The number of spans does not grow with the work: further children of a name are counted.
func TestFurtherChildrenAreCounted(t *testing.T) {
	t.Parallel()
	c := tracingtest.Serve(t)
	tr := c.Tracer(t)
	ctx, work := tr.Continue(t.Context(), foreign, "work")
	for range 100 {
		below, part := tr.Child(ctx, "part")
		if _, detail := tr.Child(below, "detail"); detail != nil {
			detail.End(nil)
		}
		part.End(nil)
	}
	work.End(nil)
	tr.Close()
	parts, one := c.Named("part"), c.One(t, "work")
	if len(parts) != 32 || one.Facts["emco.children.part"] != "100" || parts[0].Facts["emco.children.detail"] != "1" {
		t.Errorf("%d children, and the facts are %v and %v", len(parts), one.Facts, parts[0].Facts)
	}
}

// Without a tracer nothing happens, and nothing is allocated.
func TestNilTracesNothing(t *testing.T) {
	var off *tracing.Tracer
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		a, request := off.Request(ctx, foreign, true)
		b, work := off.Continue(a, foreign, "work")
		c, part := off.Child(b, "part")
		if c != ctx || request != nil || work != nil || part != nil || request.Parent()+request.Trace()+tracing.Parent(c) != "" {
			t.Error("nil traces")
		}
		part.Fail("x")
		part.End(context.Canceled)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	off.Close()
}

// A collector that hangs holds a bounded number of spans, and delays neither work nor the end.
func TestACollectorThatHangsHoldsABoundedNumberOfSpans(t *testing.T) {
	t.Parallel()
	c := tracingtest.Serve(t)
	release := c.Hang()
	hung := tracer(t, c.Endpoint, 1, io.Discard)
	const made = 20000
	for range made {
		_, s := hung.Request(t.Context(), "", false)
		s.End(nil)
	}
	release()
	hung.Close()
	if n := len(c.Spans()); n == 0 || n > 2048+2*512 {
		t.Errorf("%d of %d spans arrived", n, made)
	}
	release = c.Hang()
	defer release()
	ends := tracerThatWaits(t, 0, c.Endpoint, 1, io.Discard)
	_, s := ends.Request(t.Context(), "", false)
	s.End(nil)
	ends.Close() // returns, although the collector never answers
}

// slowExporter takes three seconds for a batch.
type slowExporter struct{ sent atomic.Int64 }

func (e *slowExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	select {
	case <-time.After(3 * time.Second):
		e.sent.Add(int64(len(spans)))
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *slowExporter) Shutdown(context.Context) error { return nil }

// Close waits for the last spans for two seconds, or for a given time.
func TestTheEndWaitsForTheLastSpans(t *testing.T) {
	t.Parallel()
	for farewell, want := range map[time.Duration]struct {
		sent int64
		took time.Duration
	}{0: {0, 2 * time.Second}, time.Minute: {1, 3 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			to := &slowExporter{}
			slow := tracing.New(tracing.Options{Exporter: to, Ratio: 1, Farewell: farewell, Log: slog.New(slog.DiscardHandler)})
			_, s := slow.Request(t.Context(), "", false)
			s.End(nil)
			began := time.Now()
			slow.Close()
			if took, sent := time.Since(began), to.sent.Load(); took != want.took || sent != want.sent {
				t.Errorf("farewell %s: %d spans were sent in %s, want %+v", farewell, sent, took, want)
			}
			time.Sleep(time.Minute) // the exporter ends in the background
		})
	}
}

// A collector that refuses costs one line of the log, and not one for each batch.
func TestACollectorThatRefusesIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refused.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	var log bytes.Buffer
	refuses := tracer(t, server.URL+"/v1/traces", 1, &log)
	for range 2048 {
		_, s := refuses.Request(t.Context(), "", false)
		s.End(errors.New("planted"))
	}
	refuses.Close()
	if refused.Load() < 2 || strings.Count(log.String(), "spans are lost") != 1 || strings.Contains(log.String(), "planted") {
		t.Errorf("%d batches were refused; the log is %s", refused.Load(), log.String())
	}
}
