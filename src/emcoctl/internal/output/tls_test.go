package output_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/certtest"
	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

// What to do when TLS connects no server and client is not to start the server.
func TestAdviceOfFaultsOfTLS(t *testing.T) {
	t.Parallel()
	authority, other := certtest.New(t), certtest.New(t)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	authority.Write(t, ca)
	pair := func(name string, c tls.Certificate) client.Options {
		o := client.Options{CAFile: ca, CertFile: filepath.Join(dir, name+".pem"), KeyFile: filepath.Join(dir, name+".key")}
		certtest.WritePair(t, o.CertFile, o.KeyFile, c)
		return o
	}
	good := authority.Issue(t, "localhost")
	expired := authority.IssueUntil(t, "localhost", time.Now().Add(-time.Minute))
	with := func(usage x509.ExtKeyUsage) tls.Certificate {
		return authority.IssueWith(t, "localhost", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{usage} })
	}
	elsewhere := authority.IssueWith(t, "localhost", func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"emco.example"} })
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	const anyOf, none = tls.RequireAndVerifyClientCert, tls.NoClientCert
	for _, tt := range []struct {
		name   string
		server tls.Certificate
		ask    tls.ClientAuthType
		client client.Options
		want   string
	}{
		{"no authority", good, none, client.Options{}, "--ca-file FILE or $EMCO_CA_FILE"},
		{"another authority", other.Issue(t, "localhost"), none, client.Options{CAFile: ca}, "--ca-file"},
		{"an expired certificate", expired, none, client.Options{CAFile: ca}, "renew the certificate on the server"},
		{"a certificate for clients", with(x509.ExtKeyUsageClientAuth), none, client.Options{CAFile: ca}, "valid for servers"},
		{"a certificate for another name", elsewhere, none, client.Options{CAFile: ca}, "that its certificate names"},
		{"no client certificate", good, anyOf, client.Options{CAFile: ca}, "--cert-file and --key-file"},
		{"an expired client certificate", good, anyOf, pair("expired", expired), "--cert-file and --key-file"},
		{"a client certificate for servers", good, anyOf, pair("server", with(x509.ExtKeyUsageServerAuth)), "--cert-file and --key-file"},
		{"a client certificate of another authority", good, anyOf, pair("other", other.Issue(t, "me")), "--cert-file and --key-file"},
		{"http", good, none, client.Options{BaseURL: "http://"}, "write https:// in the address"},
		{"no TLS", good, none, client.Options{BaseURL: "https://" + strings.TrimPrefix(plain.URL, "http://")}, "write http:// in its address"},
	} {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{tt.server}, ClientAuth: tt.ask, ClientCAs: authority.Pool(), MinVersion: tls.VersionTLS12}
		s.StartTLS()
		t.Cleanup(s.Close)
		switch tt.client.BaseURL {
		case "":
			tt.client.BaseURL = s.URL
		case "http://":
			tt.client.BaseURL += strings.TrimPrefix(s.URL, "https://")
		}
		c, err := client.New(tt.client)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Ask(t.Context(), client.Request{Method: http.MethodGet, Path: "projects"})
		if got := output.Next(err); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %v; next %q, want %q", tt.name, err, got, tt.want)
		}
	}
}

// A server with TLS that ends the connection may have refused the client. One without has not.
func TestAdviceWhenTheServerEndsTheConnection(t *testing.T) {
	t.Parallel()
	for _, no := range []syscall.Errno{syscall.EPIPE, syscall.ECONNRESET} {
		for scheme, want := range map[string]string{"https": "--cert-file and --key-file", "http": "start the server"} {
			err := errs.E(errs.Unavailable, "GET", scheme+"://e:1/v2/projects", &net.OpError{Op: "write", Err: os.NewSyscallError("write", no)})
			if got := output.Next(err); !strings.Contains(got, want) {
				t.Errorf("%v: next %q, want %q", err, got, want)
			}
		}
	}
}
