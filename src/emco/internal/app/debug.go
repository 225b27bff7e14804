package app

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/run"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// profiler returns the service that shows developers where the program spends time and
// memory; none if no address is configured.
func (a *App) profiler(c config.Config) ([]run.Service, error) {
	if c.Debug.Address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", c.Debug.Address)
	if err != nil {
		return nil, fmt.Errorf("debug.address: %w", err)
	}
	a.onClose(func() error { _ = listener.Close(); return nil }) // closes it if the start fails; otherwise the server has closed it
	a.log.Info("profiles are served", "address", listener.Addr().String())
	return []run.Service{&httpService{name: "debug", listener: listener, server: web.Server{Handler: profiles(), Log: a.log, Limits: limits(c)}}}, nil
}

// profiles serves the profiles of Go's run time for `go tool pprof`.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	return mux
}
