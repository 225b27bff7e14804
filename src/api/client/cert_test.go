package client_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/certtest"
	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

func TestTheServerSeesTheCertificateOfTheClient(t *testing.T) {
	t.Parallel()
	ca, dir := certtest.New(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca.Write(t, file("ca.pem"))
	certtest.WritePair(t, file("tls.crt"), file("tls.key"), ca.Issue(t, "ann"))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, "server")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	server.StartTLS()
	defer server.Close()
	o := client.Options{BaseURL: server.URL, CAFile: file("ca.pem"), CertFile: file("tls.crt"), KeyFile: file("tls.key")}
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := c.Do(t.Context(), client.Request{Method: http.MethodGet, Path: "projects"}); err != nil || string(res.Body) != "ann" {
		t.Errorf("the server sees %v, %v", res, err)
	}
	o.KeyFile = ""
	if _, err := client.New(o); !errs.Is(err, errs.Invalid) {
		t.Errorf("without the key: %v", err)
	}
}
