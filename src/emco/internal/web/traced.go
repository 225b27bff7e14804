package web

import (
	"log/slog"
	"net/http"

	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
)

// Traced records each request as a span, which its route names. It must be inside of Wrap, and of what finds out who
// the caller is: what an anonymous caller sends as the parent becomes a link.
func Traced(tracer *tracing.Tracer, next http.Handler) http.Handler {
	if tracer == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Request(r.Context(), r.Header.Get(tracing.Header), Actor(r.Context()) != Anonymous)
		if t := traceOf(ctx); t != nil && span != nil {
			t.span = span
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// endSpan ends the span of an answered request.
func (t *requestTrace) endSpan(s Served) {
	if t.span == nil {
		return
	}
	t.span.Rename(s.Method + " " + s.Route)
	t.span.Add(
		slog.String("http.request.method", s.Method), slog.String("http.route", s.Route),
		slog.Int("http.response.status_code", s.Status), slog.String("emco.request", t.id),
	)
	if s.Status >= http.StatusInternalServerError {
		t.span.Fail(http.StatusText(s.Status))
	}
	t.span.End(nil)
}
