package tlsfiles_test

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
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/certtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/tlsfiles"
)

// A renewed client certificate is used by the next connection, without a restart.
func TestRenewedClientCertificatesAreUsed(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), certtest.New(t)
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	files := tlsfiles.Client{Cert: cert, Key: key}
	if _, err := files.Config(); err == nil || !strings.HasPrefix(err.Error(), "cert: ") {
		t.Errorf("files that do not exist: %v", err)
	}
	certtest.WritePair(t, cert, key, authority.Issue(t, "first"))
	config, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Client", r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	client := server.Client()
	transport := client.Transport.(*http.Transport)
	transport.TLSClientConfig.GetClientCertificate = config.GetClientCertificate
	transport.DisableKeepAlives = true
	for _, want := range []string{"first", "second"} {
		certtest.WritePair(t, cert, key, authority.Issue(t, want))
		res, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := res.Header.Get("Client"); got != want {
			t.Errorf("the server sees the certificate of %q, not of %q", got, want)
		}
	}
}

// Without files there is no TLS; half of a pair, and authorities that are none, are errors.
func TestFilesOfClients(t *testing.T) {
	t.Parallel()
	if c, err := (tlsfiles.Client{}).Config(); c != nil || err != nil {
		t.Errorf("without files: %v, %v", c, err)
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	certtest.WritePair(t, cert, key, certtest.New(t).Issue(t, "one"))
	if c, err := (tlsfiles.Client{CA: cert}).Config(); err != nil || c.RootCAs == nil || c.GetClientCertificate != nil || c.MinVersion < tls.VersionTLS12 {
		t.Errorf("with an authority: %+v, %v", c, err)
	}
	for want, files := range map[string]tlsfiles.Client{
		"cert: set it with its key": {Cert: cert}, "cert: set it with its key, or neither": {CA: cert, Key: key},
		"ca: no PEM certificate": {CA: key}, "ca: open ": {CA: filepath.Join(dir, "none")},
	} {
		if _, err := files.Config(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", files, err, want)
		}
	}
}

// A client refuses a server whose certificate has expired, is for another name, or is of another authority.
func TestH67ServersThatAreNotWhatTheySay(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), certtest.New(t)
	ca := filepath.Join(dir, "ca.crt")
	authority.Write(t, ca)
	config, err := tlsfiles.Client{CA: ca}.Config()
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]tls.Certificate{
		"":                  authority.Issue(t, "server"),
		"has expired":       authority.IssueUntil(t, "server", time.Now().Add(-time.Minute)),
		"is valid for":      authority.IssueWith(t, "server", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 7)} }),
		"unknown authority": certtest.New(t).Issue(t, "server"),
	} {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{c}}
		server.StartTLS()
		res, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone(), DisableKeepAlives: true}}).Get(server.URL)
		switch {
		case err == nil:
			_ = res.Body.Close()
			if want != "" {
				t.Errorf("a server is believed whose certificate should be refused: %s", want)
			}
		case want == "" || !strings.Contains(err.Error(), want):
			t.Errorf("got %v, want %q", err, want)
		}
		server.Close()
	}
}

// The first end is that of the clients' own certificates, as the files are now.
func TestTheFirstEndOfClientCertificates(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), certtest.New(t)
	soon, late := time.Now().Add(time.Minute).Truncate(time.Second), time.Now().Add(2*time.Hour)
	var certs []string
	for name, end := range map[string]time.Time{"soon": soon, "late": late} {
		cert := filepath.Join(dir, name+".crt")
		certs = append(certs, cert)
		certtest.WritePair(t, cert, filepath.Join(dir, name+".key"), authority.IssueUntil(t, name, end))
	}
	if got, err := tlsfiles.FirstEnd(certs); err != nil || !got.Equal(soon) {
		t.Errorf("the first end is %v, %v, want %v", got, err, soon)
	}
	if got, err := tlsfiles.FirstEnd([]string{""}); err != nil || !got.IsZero() {
		t.Errorf("without a file: %v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, file := range map[string]string{"no such file": filepath.Join(dir, "none"), "no PEM certificate": filepath.Join(dir, "empty"), "malformed": filepath.Join(dir, "soon.key")} {
		if _, err := tlsfiles.FirstEnd([]string{certs[0], file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}
