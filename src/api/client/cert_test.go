package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

// writePEM writes a block of PEM, and returns its file.
func writePEM(t *testing.T, name, kind string, raw []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheServerSeesTheCertificateOfTheClient(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ann"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	o := client.Options{
		BaseURL: server.URL, CAFile: writePEM(t, "ca.pem", "CERTIFICATE", server.Certificate().Raw),
		CertFile: writePEM(t, "tls.crt", "CERTIFICATE", cert), KeyFile: writePEM(t, "tls.key", "PRIVATE KEY", text),
	}
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
