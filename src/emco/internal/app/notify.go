package app

import (
	"context"
	"fmt"
	"net"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/run"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusnotify"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dcm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/ncm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator"
)

// notifier returns the gRPC service that notifies clients of status changes of the groups, clouds
// and clusters that this process serves; none if it serves neither, or no address is configured.
func (a *App) notifier(c config.Config, g *orchestrator.Groups, l *dcm.Clouds, n *ncm.Networks, r *statusview.Reader) ([]run.Service, error) {
	o := statusnotify.Options{Follow: r.Follow, Limit: c.Status.Streams, Log: a.log, TLS: a.tls}
	if a.guard != nil {
		o.Enter = a.guard.EnterCall
		o.Admit = func(ctx context.Context, typ, place string) (string, error) {
			need := authz.Permission{Verb: authz.Get, Type: typ}
			if typ == "" {
				need.Verb = authz.SignedIn
			}
			return a.guard.AdmitCall(ctx, need, place)
		}
	}
	if c.Runs("orchestrator") {
		o.Groups = g.Queries().Status
	}
	if c.Runs("dcm") {
		o.Clouds, o.Clusters = l.Status, n.Status
	}
	if c.GRPC.Address == "" || o.Groups == nil && o.Clouds == nil {
		return nil, nil
	}
	listener, err := net.Listen("tcp", c.GRPC.Address)
	if err != nil {
		return nil, fmt.Errorf("grpc.address: %w", err)
	}
	a.onClose(func() error { _ = listener.Close(); return nil }) // closes it if the start fails; otherwise the server has closed it
	a.grpc = listener.Addr().String()
	return []run.Service{statusnotify.New(listener, o)}, nil
}

// GRPCAddress returns the address of the gRPC service; empty without one.
func (a *App) GRPCAddress() string { return a.grpc }
