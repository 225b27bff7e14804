package app_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/emco-orchestrator/emco/src/api/certtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	contextupdate "github.com/emco-orchestrator/emco/src/emco/internal/customize/contextupdatepb"
)

// authorityFile writes the certificate of an authority to a file, for clients to trust.
func authorityFile(t *testing.T, ca certtest.Authority) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	ca.Write(t, file)
	return file
}

func withCertificate(t *testing.T, ca certtest.Authority) *tls.Config {
	t.Helper()
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.Issue(t, "server")}}
}

// agreeing is an action controller without edits.
type agreeing struct {
	contextupdate.UnimplementedContextupdateServer
	calls atomic.Int64
}

func (a *agreeing) UpdateAppContext(context.Context, *contextupdate.ContextUpdateRequest) (*contextupdate.ContextUpdateResponse, error) {
	a.calls.Add(1)
	return &contextupdate.ContextUpdateResponse{AppContextUpdated: true}, nil
}

// serve serves with a certificate of an authority, and returns the port.
func (a *agreeing) serve(t *testing.T, ca certtest.Authority) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(withCertificate(t, ca))))
	contextupdate.RegisterContextupdateServer(server, a)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("the controller ended with %v", err)
		}
	})
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// Controllers are called by TLS with controllers.ca. Without it, those of other machines are not called.
func TestControllersAreCalledByTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	var controller agreeing
	port := controller.serve(t, ca)
	s := newStageWith(t, func(c *config.Config) { c.Controllers.CA = authorityFile(t, ca) })
	s.fleet("a")
	g := s.groupOfRegions("127.0.0.1", port)
	g.act("instantiate")
	g.becomes("Instantiated")
	if controller.calls.Load() == 0 {
		t.Error("the controller was not called")
	}

	plain := newStage(t)
	plain.fleet("a")
	g = plain.groupOfRegions("controller.example.org", "9040")
	if got := plain.expect(403, "POST", g.path+"/instantiate", ""); !strings.Contains(got, "controllers.plainText") {
		t.Errorf("a controller without TLS on another machine: %s", got)
	}
}

// An OPA server that wants a token gets the one of its file, a renewed one without a restart. No answer shows it.
func TestOPAServersGetTheirTokens(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer planted-second" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(r.Header.Get("Authorization") + " is not allowed"))
			return
		}
		_, _ = w.Write([]byte(`{"result":false}`))
	}))
	server.TLS = withCertificate(t, ca)
	server.StartTLS()
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("planted-first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStageWith(t, func(c *config.Config) {
		c.Outbound.Engines = []string{server.URL + "/"}
		c.Outbound.EngineAccess = []config.EngineAccess{{URL: server.URL, TokenFile: token, CA: authorityFile(t, ca)}}
	})
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": nil})
	s.expect(201, "POST", "policy/agents/watcher", `{}`)
	s.expect(201, "POST", g.path+"/policy-intents/ask", `{"spec":{"event":{"id":"alarm","agent":"watcher"},"policy":{"engineUrl":"`+server.URL+`","policyName":"shop/halt"},"actor":"terminate"}}`)
	if got := s.expect(200, "POST", watcherEvents, `{"id":"alarm"}`); !strings.Contains(got, `"outcome":"refused"`) || !strings.Contains(got, "Bearer *** is not allowed") {
		t.Errorf("with another token: %s", got)
	}
	s.must("renew the token", os.WriteFile(token, []byte("planted-second\n"), 0o600))
	if got := s.expect(200, "POST", watcherEvents, `{"id":"alarm"}`); !strings.Contains(got, `"outcome":"unmet"`) {
		t.Errorf("with the token: %s", got)
	}
}
