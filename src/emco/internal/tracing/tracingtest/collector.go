// Package tracingtest is a collector of spans for tests: it takes OTLP over HTTP as real ones do.
package tracingtest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing/otlp"
)

// Span is what arrived of a span.
type Span struct {
	Name, Trace, ID, Parent string   // ids in hexadecimal
	Links                   []string // ids of traces
	Facts                   map[string]string
	Failure                 string
}

// Collector keeps the spans that arrive.
type Collector struct {
	Endpoint string

	mu    sync.Mutex
	spans []Span        // guarded by mu
	hold  chan struct{} // guarded by mu; requests wait until it is closed
}

// Serve starts a collector that ends with the test.
func Serve(t testing.TB) *Collector {
	c := &Collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.Endpoint = server.URL + "/v1/traces"
	return c
}

// Patience is how long tracers of tests wait for the last spans when they end, also on a busy machine.
const Patience = time.Minute

// Tracer returns a tracer that sends everything to the collector. Its Close waits for the spans.
func (c *Collector) Tracer(t testing.TB) *tracing.Tracer {
	t.Helper()
	exporter, err := otlp.Open(c.Endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := tracing.New(tracing.Options{Exporter: exporter, Endpoint: c.Endpoint, Ratio: 1, Farewell: Patience, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(out.Close)
	return out
}

// Hang makes requests wait until release is called.
func (c *Collector) Hang() (release func()) {
	hold := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = hold
	return sync.OnceFunc(func() { close(hold) })
}

// Spans returns what arrived.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Named returns the spans of a name.
func (c *Collector) Named(name string) []Span {
	return slices.DeleteFunc(c.Spans(), func(s Span) bool { return s.Name != name })
}

// One returns the only span of a name.
func (c *Collector) One(t testing.TB, name string) Span {
	t.Helper()
	found := c.Named(name)
	if len(found) != 1 {
		t.Fatalf("%d spans are called %q; the spans are %+v", len(found), name, c.Spans())
	}
	return found[0]
}

// ServeHTTP takes spans in.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	hold := c.hold
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	var body collector.ExportTraceServiceRequest
	unzipped, err := gzip.NewReader(r.Body)
	if err == nil {
		var text []byte
		if text, err = io.ReadAll(unzipped); err == nil {
			err = proto.Unmarshal(text, &body)
		}
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "this is no export of spans", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range body.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, spanOf(s))
			}
		}
	}
}

func spanOf(s *tracepb.Span) Span {
	out := Span{Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId), Facts: map[string]string{}}
	for _, l := range s.Links {
		out.Links = append(out.Links, hex.EncodeToString(l.TraceId))
	}
	for _, a := range s.Attributes {
		out.Facts[a.Key] = text(a.Value)
	}
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		out.Failure = s.Status.Message
	}
	return out
}

func text(v *commonpb.AnyValue) string {
	if n, ok := v.GetValue().(*commonpb.AnyValue_IntValue); ok {
		return strconv.FormatInt(n.IntValue, 10)
	}
	return v.GetStringValue()
}
