package app_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// file writes the authority's certificate to a file, for clients to trust.
func (a authority) file() string {
	a.t.Helper()
	file := filepath.Join(a.t.TempDir(), "ca.pem")
	a.write(file, pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	return file
}

func withCertificate(ca authority) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.issue("server")}}
}

// An OPA server that wants a token gets the one of its file, a renewed one without a restart. No answer shows it.
func TestOPAServersGetTheirTokens(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer planted-second" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(r.Header.Get("Authorization") + " is not allowed"))
			return
		}
		_, _ = w.Write([]byte(`{"result":false}`))
	}))
	server.TLS = withCertificate(ca)
	server.StartTLS()
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("planted-first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStageWith(t, func(c *config.Config) {
		c.Outbound.Engines = []string{server.URL + "/"}
		c.Outbound.EngineAccess = []config.EngineAccess{{URL: server.URL, TokenFile: token, CA: ca.file()}}
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
