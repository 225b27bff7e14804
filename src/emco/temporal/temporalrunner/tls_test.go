package temporalrunner_test

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/certtest"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// The server must have a certificate of the operator's authority, and sees a certificate of its own; a renewed one needs
// no restart.
func TestBothSidesShowCertificates(t *testing.T) {
	t.Parallel()
	servers, clients, dir := certtest.New(t), certtest.New(t), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	servers.Write(t, in("servers.pem"))
	clients.Write(t, in("clients.pem"))
	issue := func(a certtest.Authority, cert, key string) {
		certtest.WritePair(t, in(cert), in(key), a.Issue(t, "test"))
	}
	f := newFrontend(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{servers.Issue(t, "server")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool()})

	issue(clients, "client.pem", "client.key")
	issue(servers, "wrong.pem", "wrong.key")
	if result, err := open(t, config.Temporal{Address: f.address, CA: in("servers.pem"), Cert: in("client.pem"), Key: in("client.key")}).Run(t.Context(), job(t, say)); err != nil || result != "done" {
		t.Errorf("with the right certificates: %q, %v", result, err)
	}
	seen := f.seen()
	for name, c := range map[string]config.Temporal{
		"no certificate":       {CA: in("servers.pem")},
		"another certificate":  {CA: in("servers.pem"), Cert: in("wrong.pem"), Key: in("wrong.key")},
		"another server":       {CA: in("clients.pem"), Cert: in("client.pem"), Key: in("client.key")},
		"a server without TLS": {},
	} {
		c.Address = f.address
		soon, stop := context.WithTimeout(t.Context(), time.Second)
		_, err := open(t, c).Run(soon, job(t, say))
		stop()
		if !errs.Is(err, errs.Unavailable) || strings.Contains(err.Error(), "PRIVATE") || f.seen() > seen {
			t.Errorf("%s: %v, and %d requests; want Unavailable, and none", name, err, f.seen()-seen)
		}
		if name == "another server" && !strings.Contains(err.Error(), "certificate signed by unknown authority") {
			t.Errorf("%s: %v, want the reason", name, err)
		}
	}

	renewed := open(t, config.Temporal{Address: f.address, CA: in("servers.pem"), Cert: in("wrong.pem"), Key: in("wrong.key")})
	issue(clients, "wrong.pem", "wrong.key")
	if result, err := renewed.Run(t.Context(), job(t, say)); err != nil || result != "done" {
		t.Errorf("after its certificate was renewed: %q, %v", result, err)
	}
}
