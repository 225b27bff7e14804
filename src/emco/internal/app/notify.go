package app

import (
	"fmt"
	"net"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/run"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusnotify"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dcm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator"
)

// notifier is the service that tells clients by gRPC of statuses that change: of groups,
// of clouds, or of both, as they are served here. None if neither is, or no address is set.
func (a *App) notifier(c config.Config, g *orchestrator.Groups, l *dcm.Clouds, r *statusview.Reader) ([]run.Service, error) {
	o := statusnotify.Options{Follow: r.Follow, Limit: c.Status.Streams, Log: a.log}
	if c.Runs("orchestrator") {
		o.Groups = g.Status
	}
	if c.Runs("dcm") {
		o.Clouds = l.Status
	}
	if c.GRPC.Address == "" || o.Groups == nil && o.Clouds == nil {
		return nil, nil
	}
	listener, err := net.Listen("tcp", c.GRPC.Address)
	if err != nil {
		return nil, fmt.Errorf("grpc.address: %w", err)
	}
	a.onClose(func() error { _ = listener.Close(); return nil }) // it is closed already, unless the start failed
	a.grpc = listener.Addr().String()
	return []run.Service{statusnotify.New(listener, o)}, nil
}

// GRPCAddress is where statuses are told by gRPC; empty if they are not.
func (a *App) GRPCAddress() string { return a.grpc }
