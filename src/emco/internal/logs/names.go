package logs

import (
	"context"
	"log/slog"
	"sync/atomic"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

const (
	deployment     = "deployment"
	deploymentName = "deploymentName"
)

// Names adds the names of deployments to lines that have their ids.
type Names struct {
	subject atomic.Pointer[func(id string) string]
}

// Set gives the function that finds the document of a deployment by its id; "" if it is not
// known. It must not log.
func (n *Names) Set(subject func(id string) string) { n.subject.Store(&subject) }

// Handler returns a handler that adds names and passes lines to next.
func (n *Names) Handler(next slog.Handler) slog.Handler { return namingHandler{next, n} }

// nameOf returns the attribute with the name that belongs to a; false if a is no id of a
// deployment, or the deployment is not known.
func (n *Names) nameOf(a slog.Attr) (slog.Attr, bool) {
	subject := n.subject.Load()
	if a.Key != deployment || subject == nil {
		return slog.Attr{}, false
	}
	name := v2.ShortName((*subject)(a.Value.String()))
	return slog.String(deploymentName, name), name != ""
}

type namingHandler struct {
	slog.Handler
	names *Names
}

// Handle adds the name right after the id.
func (h namingHandler) Handle(ctx context.Context, r slog.Record) error {
	named := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		named.AddAttrs(a)
		if name, ok := h.names.nameOf(a); ok {
			named.AddAttrs(name)
		}
		return true
	})
	return h.Handler.Handle(ctx, named)
}

// WithAttrs adds names to the attributes of all lines.
func (h namingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var all []slog.Attr
	for _, a := range attrs {
		all = append(all, a)
		if name, ok := h.names.nameOf(a); ok {
			all = append(all, name)
		}
	}
	return namingHandler{h.Handler.WithAttrs(all), h.names}
}

// WithGroup is that of the handler below.
func (h namingHandler) WithGroup(name string) slog.Handler {
	return namingHandler{h.Handler.WithGroup(name), h.names}
}
