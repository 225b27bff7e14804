package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits are the deadlines of a server and the size of headers. They keep slow and greedy clients
// from holding connections and memory. Handlers limit their bodies.
type Limits struct {
	Header      time.Duration // for the request's header to arrive
	Read        time.Duration // for header and body; routes that take uploads extend it
	Write       time.Duration // from the end of the header to the end of the answer
	Idle        time.Duration // between requests of a connection
	Drain       time.Duration // for requests under way when the server stops
	HeaderBytes int           // size of the header
}

// DefaultLimits fits an API whose documents are small.
func DefaultLimits() Limits {
	return Limits{
		Header: 10 * time.Second, Read: 30 * time.Second, Write: 2 * time.Minute,
		Idle: 2 * time.Minute, Drain: 15 * time.Second, HeaderBytes: 64 << 10,
	}
}

// Server serves a handler until its context ends.
type Server struct {
	Log     *slog.Logger
	Handler http.Handler
	Limits  Limits
	TLS     *tls.Config // nil: plain HTTP
}

// Serve answers requests on the listener until ctx ends; then it stops accepting,
// waits for the requests under way, at most Limits.Drain, and returns nil if all
// were answered. It closes the listener. Requests do not see ctx end: they are let
// finish. Those that go on until the client leaves look at draining.
func (s Server) Serve(ctx context.Context, listener net.Listener) error {
	draining := make(chan struct{})
	base := context.WithValue(context.WithoutCancel(ctx), drainKey{}, draining)
	server := &http.Server{
		Handler:           s.Handler,
		ReadHeaderTimeout: s.Limits.Header,
		ReadTimeout:       s.Limits.Read,
		WriteTimeout:      s.Limits.Write,
		IdleTimeout:       s.Limits.Idle,
		MaxHeaderBytes:    s.Limits.HeaderBytes,
		ErrorLog:          log.New(&handshakeLog{log: s.Log, now: time.Now}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	stopped := make(chan error, 1)
	go func() { stopped <- serve(server, listener, s.TLS) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	close(draining)
	err := s.drain(ctx, server)
	if served := <-stopped; err == nil && !errors.Is(served, http.ErrServerClosed) {
		return served
	}
	return err
}

// serve answers requests over TLS, with HTTP/2, if there is a configuration.
func serve(server *http.Server, listener net.Listener, config *tls.Config) error {
	if config == nil {
		return server.Serve(listener)
	}
	server.TLSConfig = config
	return server.ServeTLS(listener, "", "")
}

func (s Server) drain(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Limits.Drain)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}
