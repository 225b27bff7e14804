package gitwriter

import (
	"context"
	"log/slog"
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
	"github.com/emco-orchestrator/emco/src/emco/internal/trailers"
	"github.com/emco-orchestrator/emco/src/git"
)

// maxSpans bounds the deliveries of one commit that are traced. A deployment is one, whatever the number of its
// clusters.
const maxSpans = 32

// spans are the deliveries of a commit whose requests are traced.
type spans []deliverySpan

// deliverySpan is the span of what a commit delivers of a deployment.
type deliverySpan struct {
	deployment v2.DeploymentID
	*tracing.Span
}

// trace begins a span for each deployment that a commit delivers, if its request is traced.
func (w *Writer) trace(ctx context.Context, parts []contribution) spans {
	if w.Tracer == nil {
		return nil
	}
	clusters := map[v2.DeploymentID]int{}
	var order []v2.DeploymentID
	for _, c := range parts {
		if clusters[c.target.Deployment]++; clusters[c.target.Deployment] == 1 {
			order = append(order, c.target.Deployment)
		}
	}
	var out spans
	for _, d := range order {
		_, s := w.Tracer.Continue(ctx, w.Pairs.Trace(d), "deliver", slog.String("emco.deployment", string(d)), slog.Int("emco.clusters", clusters[d]))
		if s == nil {
			continue
		}
		if out = append(out, deliverySpan{d, s}); len(out) == maxSpans {
			break
		}
	}
	return out
}

// trailers returns the trailer that names the spans; none without spans.
func (s spans) trailers() []git.Trailer {
	if len(s) == 0 {
		return nil
	}
	var values []string
	for _, span := range s {
		values = append(values, span.Parent())
	}
	slices.Sort(values)
	return []git.Trailer{{Key: trailers.Spans, Value: trailers.Join(values)}}
}

// end ends the spans with the commit that was made, or with the error of all.
func (s spans) end(made git.Hash, err error) {
	for _, span := range s {
		if made != "" {
			span.Add(slog.String("git.commit", string(made)))
		}
		span.End(err)
	}
}

// endEach ends the spans, each with the error of its deployment, if there is one.
func (s spans) endEach(failed map[v2.DeploymentID]error) {
	for _, span := range s {
		span.End(failed[span.deployment])
	}
}
