package grpccall_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	pb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/emco/internal/grpccall"
)

// server answers as a test requires.
type server struct {
	pb.UnimplementedHealthServer
	calls  atomic.Int64
	answer func(ctx context.Context, call int64) error
}

func (s *server) Check(ctx context.Context, _ *pb.HealthCheckRequest) (*pb.HealthCheckResponse, error) {
	return &pb.HealthCheckResponse{}, s.answer(ctx, s.calls.Add(1))
}

// serve starts a server, and returns a function that calls it.
func serve(t *testing.T, s *server, admit func(netip.Addr) error) func(context.Context) error {
	t.Helper()
	address := serveAt(t, listen(t, "127.0.0.1:0"), s)
	return func(ctx context.Context) error {
		_, err := grpccall.Call(ctx, grpccall.Dialer{Admit: admit}, address, check)
		return err
	}
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// lingeringListener accepts connections that end when the client has read all. A client by TLS 1.3 learns after its
// handshake that its certificate is missing: if what it sends by then is not read, the reason is lost with the connection.
type lingeringListener struct{ net.Listener }

func (l lingeringListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return lingeringConn{conn.(*net.TCPConn)}, nil
}

type lingeringConn struct{ *net.TCPConn }

func (c lingeringConn) Close() error {
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.Copy(io.Discard, c.TCPConn)
	return c.TCPConn.Close()
}

// serveAt serves until the test ends, and returns the address.
func serveAt(t *testing.T, listener net.Listener, s *server, options ...grpc.ServerOption) string {
	t.Helper()
	g := grpc.NewServer(options...)
	pb.RegisterHealthServer(g, s)
	done := make(chan error, 1)
	go func() { done <- g.Serve(listener) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it began
			t.Errorf("the server ended with %v", err)
		}
	})
	return listener.Addr().String()
}

func check(ctx context.Context, conn grpc.ClientConnInterface) (*pb.HealthCheckResponse, error) {
	return pb.NewHealthClient(conn).Check(ctx, &pb.HealthCheckRequest{})
}

func TestACallIsRepeatedWhileTheControllerIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer func(call int64) error
		calls  int64
		kind   errs.Kind
		text   string
	}{
		"it starts":  {func(call int64) error { return unavailable(call < 3) }, 3, errs.Internal, ""},
		"it is away": {func(int64) error { return unavailable(true) }, 3, errs.Unavailable, "3 attempts: starting"},
		"it refuses": {func(int64) error { return status.Error(codes.InvalidArgument, "what?\n"+strings.Repeat("x", 1<<20)) }, 1, errs.Invalid, "it answers InvalidArgument: what? xxx"},
	} {
		s := &server{answer: func(_ context.Context, call int64) error { return tt.answer(call) }}
		err := serve(t, s, outbound.Policy{}.Check)(t.Context())
		if (err == nil) != (tt.text == "") || err != nil && (!errs.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) || len(err.Error()) > 600) || s.calls.Load() != tt.calls {
			t.Errorf("%s: after %d calls: %.200v", name, s.calls.Load(), err)
		}
	}
}

// A controller that starts listens only after the first attempt: each attempt dials.
func TestEachAttemptDials(t *testing.T) {
	t.Parallel()
	closed := listen(t, "127.0.0.1:0")
	address := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	_, err := grpccall.Call(t.Context(), grpccall.Dialer{Admit: outbound.Policy{}.Check}, address, func(ctx context.Context, conn grpc.ClientConnInterface) (*pb.HealthCheckResponse, error) {
		answer, err := check(ctx, conn)
		if attempts++; attempts == 1 {
			serveAt(t, listen(t, address), &server{answer: func(context.Context, int64) error { return nil }})
		}
		return answer, err
	})
	if err != nil || attempts != 2 {
		t.Errorf("after %d attempts: %v, want an answer to the second one", attempts, err)
	}
}

// The deadline ends the pause between two attempts: the error has the cause of the last one.
func TestTheDeadlineEndsThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts, start := 0, time.Now()
		_, err := grpccall.Call(t.Context(), grpccall.Dialer{Admit: outbound.Policy{}.Check}, "127.0.0.1:1", func(context.Context, grpc.ClientConnInterface) (*pb.HealthCheckResponse, error) {
			attempts++
			time.Sleep(9900 * time.Millisecond) // of the ten seconds of all attempts
			return nil, unavailable(true)
		})
		if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "1 attempts: starting") || attempts != 1 || time.Since(start) != 10*time.Second {
			t.Errorf("after %d attempts and %s: %v", attempts, time.Since(start), err)
		}
	})
}

// gRPC refuses a large request on this side: the controller has answered nothing.
func TestTheLimitOfMessagesIsNamed(t *testing.T) {
	t.Parallel()
	large := func(ctx context.Context, conn grpc.ClientConnInterface) (*pb.HealthCheckResponse, error) {
		return pb.NewHealthClient(conn).Check(ctx, &pb.HealthCheckRequest{Service: strings.Repeat("x", 17<<20)})
	}
	s := &server{answer: func(context.Context, int64) error { return nil }}
	_, err := grpccall.Call(t.Context(), grpccall.Dialer{Admit: outbound.Policy{}.Check}, serveAt(t, listen(t, "127.0.0.1:0"), s), large)
	if !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "it answers") || !strings.Contains(err.Error(), "at most 16 MiB") || s.calls.Load() != 0 {
		t.Errorf("after %d calls: %v", s.calls.Load(), err)
	}
}

func unavailable(yes bool) error {
	if yes {
		return status.Error(codes.Unavailable, "starting")
	}
	return nil
}

// A caller that goes away, such as a process that stops, is no answer of the controller.
func TestAnEndedCallIsNoRefusal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{answer: func(ctx context.Context, _ int64) error {
		cancel()
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}}
	if err := serve(t, s, outbound.Policy{}.Check)(ctx); !errs.Is(err, errs.Unavailable) || s.calls.Load() != 1 {
		t.Errorf("after %d calls: %v, want Unavailable", s.calls.Load(), err)
	}
}

func TestAddressesThatAreNotAllowedAreNotDialled(t *testing.T) {
	t.Parallel()
	s := &server{answer: func(context.Context, int64) error { return nil }}
	err := serve(t, s, outbound.Policy{DenyPrivate: true}.Check)(t.Context())
	if !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "not allowed") || s.calls.Load() != 0 {
		t.Errorf("after %d calls: %v", s.calls.Load(), err)
	}
}

// Both sides show certificates. A call that fails for want of one reaches no controller.
func TestCallsByTLS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil) // for its certificate alone
	t.Cleanup(certified.Close)
	pool := x509.NewCertPool()
	pool.AddCert(certified.Certificate())
	pair := certified.TLS.Certificates
	s := &server{answer: func(context.Context, int64) error { return nil }}
	address := serveAt(t, lingeringListener{listen(t, "127.0.0.1:0")}, s, grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: pair, ClientAuth: tls.RequireAnyClientCert})))
	plain := serveAt(t, listen(t, "127.0.0.1:0"), s)
	right := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: pair}
	for name, tt := range map[string]struct {
		address, text string
		tls           *tls.Config
	}{
		"all of it":                {address: address, tls: right},
		"another authority":        {address: address, tls: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), Certificates: pair}, text: "certificate signed by unknown authority"},
		"no certificate":           {address: address, tls: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, text: "certificate required"},
		"another name":             {address: strings.Replace(address, "127.0.0.1", "localhost", 1), tls: right, text: "not localhost"},
		"plain text":               {address: address, text: "3 attempts"},
		"a controller without TLS": {address: plain, tls: right, text: "handshake"},
	} {
		before := s.calls.Load()
		_, err := grpccall.Call(t.Context(), grpccall.Dialer{Admit: outbound.Policy{}.Check, TLS: tt.tls}, tt.address, check)
		switch reached := s.calls.Load() - before; {
		case tt.text == "" && (err != nil || reached != 1):
			t.Errorf("%s: %v", name, err)
		case tt.text != "" && (!errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), tt.text) || reached != 0):
			t.Errorf("%s: %v after %d calls; want Unavailable with %q", name, err, reached, tt.text)
		}
	}
}

// Plain text stays on this machine, unless the operator allows it.
func TestPlainTextToOtherMachinesIsRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"labeller.example.org:9040", "10.0.0.1:9040", "[2001:db8::1]:9040"} {
		d := grpccall.Dialer{Admit: outbound.Policy{}.Check}
		call := func(context.Context, grpc.ClientConnInterface) (*pb.HealthCheckResponse, error) {
			return nil, status.Error(codes.Internal, "called")
		}
		if _, err := grpccall.Call(t.Context(), d, address, call); !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "controllers.plainText") {
			t.Errorf("%s: %v, want Forbidden", address, err)
		}
		d.PlainText = true
		if _, err := grpccall.Call(t.Context(), d, address, call); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "called") {
			t.Errorf("%s, which is allowed: %v", address, err)
		}
	}
}

func TestTextsOfControllersAreShortLines(t *testing.T) {
	t.Parallel()
	if got := grpccall.Line(" a\n\tb\x1b[31m\x00 c "); got != "a b [31m c" {
		t.Errorf("Line = %q", got)
	}
	if got := grpccall.Line(strings.Repeat("ä", 400)); len(got) > 500 || !utf8.ValidString(got) || !strings.HasSuffix(got, "ä…") {
		t.Errorf("a long text becomes %d bytes: %q", len(got), got)
	}
}
