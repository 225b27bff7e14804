// Package tracing records what a request causes as spans of OpenTelemetry, for an exporter that sends them to a collector.
//
// A request begins a trace; all that it causes later, also in other processes, continues it by the text that
// Parent returns and the stores keep. A nil Tracer records nothing, and costs a comparison.
package tracing

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Bounds of what waits for the collector. Spans beyond are dropped.
const (
	maxWaiting = 2048             // spans
	maxBatch   = 512              // spans of one request to the collector
	maxFacts   = 16               // of a span
	maxEqual   = 32               // spans of one name below another
	maxText    = 256              // bytes of one fact
	patience   = 10 * time.Second // for one request to the collector
	farewell   = 2 * time.Second  // for the last spans, when the process ends
)

// Header is the header of W3C Trace Context with which a caller names its own span.
const Header = "Traceparent"

// Options configure the export of spans.
type Options struct {
	Exporter sdktrace.SpanExporter // sends the spans; the tracer shuts it down
	Endpoint string                // URL of the collector, for the log
	Ratio    float64               // share of the requests that begin a trace
	Service  string                // name of the program
	Version  string                // of the program
	Instance string                // name of this process
	Farewell time.Duration         // how long Close waits for the last spans; 0: two seconds
	Log      *slog.Logger
}

// Tracer makes spans. Its methods may be called on nil.
type Tracer struct {
	spans    trace.Tracer
	provider *sdktrace.TracerProvider
	farewell time.Duration
}

// New returns a tracer that exports spans in the background. A collector that hangs or refuses does not delay the
// code that makes spans. The caller must Close it.
func New(o Options) *Tracer {
	limits := sdktrace.NewSpanLimits()
	limits.AttributeCountLimit, limits.AttributeValueLengthLimit = maxFacts, maxText
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&reportingExporter{SpanExporter: o.Exporter, endpoint: o.Endpoint, log: o.Log},
			sdktrace.WithMaxQueueSize(maxWaiting), sdktrace.WithMaxExportBatchSize(maxBatch), sdktrace.WithExportTimeout(patience)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Ratio))),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", o.Service), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Instance))),
	)
	return &Tracer{spans: provider.Tracer("github.com/emco-orchestrator/emco"), provider: provider, farewell: cmp.Or(o.Farewell, farewell)}
}

// Close sends the spans that wait, for at most Options.Farewell, and ends what runs in the background.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.farewell)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // what it could not send is lost; the exporter has logged why
}

// Request begins the span of a request. parent is what the caller sent in Header. A caller that is not known does
// not decide what is recorded, and cannot write into the traces of others: its parent becomes a link.
func (t *Tracer) Request(ctx context.Context, parent string, known bool) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	if from := spanContext(parent); from.IsValid() {
		if known {
			ctx = trace.ContextWithRemoteSpanContext(ctx, from)
		} else {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
		}
	}
	return begin(t.spans.Start(ctx, "request", options...))
}

// Continue begins a span below one that Parent returned earlier, maybe in another process. Without a parent there
// is no span.
func (t *Tracer) Continue(ctx context.Context, parent, name string, facts ...slog.Attr) (context.Context, *Span) {
	if t == nil || parent == "" {
		return ctx, nil
	}
	from := spanContext(parent)
	if !from.IsSampled() {
		return ctx, nil
	}
	ctx, s := begin(t.spans.Start(trace.ContextWithRemoteSpanContext(ctx, from), name))
	s.Add(facts...)
	return ctx, s
}

// Child begins a span below that of ctx. If ctx has none there is no span. A span has at most 32 children of one name;
// its fact "emco.children.NAME" is the number of all that began.
func (t *Tracer) Child(ctx context.Context, name string, facts ...slog.Attr) (context.Context, *Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	if above, ok := ctx.Value(spanKey{}).(*Span); ok && above.count(name) > maxEqual {
		return ctx, nil
	}
	ctx, s := begin(t.spans.Start(ctx, name))
	s.Add(facts...)
	return ctx, s
}

func begin(ctx context.Context, s trace.Span) (context.Context, *Span) {
	if !s.IsRecording() {
		return ctx, nil
	}
	out := &Span{span: s, children: map[string]int64{}}
	return context.WithValue(ctx, spanKey{}, out), out
}

// spanKey is the key of the Span in a context.
type spanKey struct{}

// Parent returns the span of ctx as text, for Continue; "" if nothing is recorded.
func Parent(ctx context.Context) string { return text(trace.SpanContextFromContext(ctx)) }

// ID returns the id of the trace that Parent returned; "" for "".
func ID(parent string) string {
	if from := spanContext(parent); from.IsValid() {
		return from.TraceID().String()
	}
	return ""
}

const parentKey = "traceparent" // of the propagator

func text(s trace.SpanContext) string {
	if !s.IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), s.WithTraceState(trace.TraceState{})), carrier)
	return carrier[parentKey]
}

func spanContext(parent string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{parentKey: parent})
	return trace.SpanContextFromContext(ctx)
}

// Span is work that is recorded. Its methods may be called on nil. It must not get secrets, or texts of errors,
// which may hold the values of users.
type Span struct {
	span trace.Span

	mu       sync.Mutex
	children map[string]int64 // that began, by name; guarded by mu
}

// count counts a child, and returns the number of those of its name.
func (s *Span) count(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.children[name]++
	return s.children[name]
}

// Rename changes the span's name.
func (s *Span) Rename(name string) {
	if s != nil {
		s.span.SetName(name)
	}
}

// Add adds facts: texts, numbers or booleans.
func (s *Span) Add(facts ...slog.Attr) {
	if s == nil {
		return
	}
	for _, f := range facts {
		switch f.Value.Kind() {
		case slog.KindInt64:
			s.span.SetAttributes(attribute.Int64(f.Key, f.Value.Int64()))
		case slog.KindBool:
			s.span.SetAttributes(attribute.Bool(f.Key, f.Value.Bool()))
		default:
			s.span.SetAttributes(attribute.String(f.Key, f.Value.String()))
		}
	}
}

// Parent returns the span as text, for Continue; "" for nil.
func (s *Span) Parent() string {
	if s == nil {
		return ""
	}
	return text(s.span.SpanContext())
}

// Trace returns the id of the span's trace; "" for nil.
func (s *Span) Trace() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Fail marks the span of ctx, if it has one, as failed, with the error's kind.
func Fail(ctx context.Context, err error) {
	trace.SpanFromContext(ctx).SetStatus(codes.Error, errs.KindOf(err).String())
}

// Fail marks the span as failed, for a reason of few words.
func (s *Span) Fail(reason string) {
	if s != nil {
		s.span.SetStatus(codes.Error, reason)
	}
}

// End ends the span. An error marks it as failed, with the error's kind.
func (s *Span) End(err error) {
	if s == nil {
		return
	}
	if err != nil {
		s.Fail(errs.KindOf(err).String())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range s.children {
		s.span.SetAttributes(attribute.Int64("emco.children."+name, n))
	}
	s.span.End()
}

// reportingExporter logs when exporting begins to fail, and when it works again. One goroutine at a time
// exports.
type reportingExporter struct {
	sdktrace.SpanExporter
	endpoint string
	log      *slog.Logger
	failing  bool
}

// ExportSpans returns no error: OpenTelemetry would write it to standard error.
func (e *reportingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if errors.Is(ctx.Err(), context.Canceled) { // the process ends
		return nil
	}
	switch {
	case err != nil && !e.failing:
		e.log.Warn("spans are lost: the collector of trace.endpoint takes none", "endpoint", e.endpoint, "err", err)
	case err == nil && e.failing:
		e.log.Info("the collector of trace.endpoint takes spans again", "endpoint", e.endpoint)
	}
	e.failing = err != nil
	return nil
}
