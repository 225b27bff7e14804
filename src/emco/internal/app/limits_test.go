package app_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	pb "github.com/emco-orchestrator/emco/src/emco/internal/statusnotify/statusnotifypb"
)

// ask sends a request as the holder of a token, and returns the status and how long the client must wait.
func (g *guardedStage) ask(token, path string) (code int, wait string) {
	g.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(g.Context()), http.MethodGet, g.address+path, nil)
	g.must("make a request", err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := http.DefaultClient.Do(r)
	g.must("ask "+path, err)
	_ = a.Body.Close()
	return a.StatusCode, a.Header.Get("Retry-After")
}

// deregister calls the gRPC service as the holder of a token.
func (g *guardedStage) deregister(token string) codes.Code {
	g.Helper()
	conn, err := grpc.NewClient(g.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	g.must("connect", err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(context.WithoutCancel(g.Context()), "authorization", "Bearer "+token)
	_, err = pb.NewStatusNotifyClient(conn).StatusDeregister(ctx, &pb.StatusDeregistration{ClientId: "x"})
	return status.Code(err)
}

// Wrong credentials from one address are throttled, a wrong or missing one alike, over HTTP and gRPC; good ones
// from there are not.
func TestWrongCredentialsAreThrottled(t *testing.T) {
	t.Parallel()
	g := newGuardedStage(t)
	root := g.company()
	const (
		burst  = 10
		refill = 6 * time.Second // until one more attempt is answered
	)
	began := time.Now()
	for i := range burst {
		token := ""
		if i%2 == 0 {
			token = "emco_guess" + strconv.Itoa(i)
		}
		if code, _ := g.ask(token, "/v2/projects"); code != 401 {
			t.Fatalf("attempt %d: %d", i, code)
		}
	}
	answered := burst
	throttled := func(what string, attempt func() (refused bool)) {
		t.Helper()
		for !attempt() {
			answered++
			if took := time.Since(began); answered > burst+int(took/refill) {
				t.Fatalf("%s: %d attempts are answered within %s", what, answered, took)
			}
		}
	}
	for _, path := range []string{"/v2/projects", "/metrics"} {
		throttled(path, func() bool {
			code, wait := g.ask("emco_guess", path)
			if n, err := strconv.Atoi(wait); code != 401 && (code != 429 || err != nil || n < 1 || n > 60) {
				t.Fatalf("%s after %d attempts: %d, Retry-After %q", path, answered, code, wait)
			}
			return code == 429
		})
	}
	throttled("gRPC", func() bool {
		got := g.deregister("emco_guess")
		if got != codes.ResourceExhausted && got != codes.Unauthenticated {
			t.Fatalf("gRPC after %d attempts: %s", answered, got)
		}
		return got == codes.ResourceExhausted
	})
	root.expect(200, "GET", "projects", "")
	if code, _ := g.ask("", "/v2/auth/issuers"); code != 200 {
		t.Errorf("where people sign in: %d", code)
	}
}

// A caller that sends too many requests waits; others do not.
func TestACallerThatSendsTooMuchWaits(t *testing.T) {
	t.Parallel()
	g := newGuardedStageWith(t, func(c *config.Config) { c.Auth.Requests = 1 })
	bootstrap := g.bootstrap
	loud := g.op.Token(t, map[string]any{"aud": "emco-api", "sub": "loud"})
	throttled := false
	for range 50 { // two at once, and then one a second
		code, wait := g.ask(loud, "/v2/auth/whoami")
		if throttled = code == 429 && wait != ""; throttled {
			break
		}
		if code != 200 {
			t.Fatalf("got %d", code)
		}
	}
	if !throttled {
		t.Fatal("no request is refused")
	}
	if got := g.deregister(loud); got != codes.ResourceExhausted && got != codes.NotFound { // a second may have passed
		t.Errorf("gRPC: %s", got)
	}
	if code, _ := g.ask(bootstrap, "/v2/auth/whoami"); code != 200 {
		t.Errorf("another caller: %d", code)
	}
	if !strings.Contains(g.log.String(), "user:corp:loud sends too many requests") {
		t.Error("the log does not say who")
	}
}
