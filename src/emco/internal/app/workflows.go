package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow/commandrunner"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow/httprunner"
)

// TemporalRunner is a runner of workflows that holds a connection.
type TemporalRunner interface {
	workflow.Runner
	io.Closer
}

// OpenTemporal returns the runner for a Temporal server, which it reaches at addresses that admit returns no error for.
type OpenTemporal func(c config.Temporal, admit func(netip.Addr) error, log *slog.Logger) (TemporalRunner, error)

// WithTemporal adds the runner of workflows on Temporal, which is a module of its own.
func WithTemporal(open OpenTemporal) Option { return func(a *App) { a.temporal = open } }

// runners returns the runners of workflows that the configuration allows.
func (a *App) runners(c config.Config, p resolvedSettings) (workflow.Runners, error) {
	out := workflow.Runners{}
	if len(c.Workflows.Endpoints) > 0 {
		r, err := httprunner.New(c.Workflows.Endpoints, p.outward.Check)
		if err != nil {
			return nil, fmt.Errorf("workflows.endpoints: %w", err)
		}
		out[v2.RunnerHTTP] = r
	}
	if len(c.Workflows.Programs) > 0 {
		r, err := commandrunner.New(c.Workflows.Programs, uint64(c.Workflows.Memory))
		if err != nil {
			return nil, fmt.Errorf("workflows.programs: %w", err)
		}
		out[v2.RunnerCommand] = r
	}
	if c.Workflows.Temporal.Address == "" {
		return out, nil
	}
	if a.temporal == nil {
		return nil, errors.New("workflows.temporal.address: this program has no client of Temporal; run emco-temporal instead (docs/install.md), or remove the setting")
	}
	r, err := a.temporal(c.Workflows.Temporal, p.outward.Check, a.log)
	if err != nil {
		return nil, fmt.Errorf("workflows.temporal: %w", err)
	}
	a.onClose(r.Close)
	out[v2.RunnerTemporal] = r
	return out, nil
}
