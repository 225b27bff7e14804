package temporalrunner_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	der, key := certify(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, a.key = cert, key
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

func certify(t *testing.T, c, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// issue writes a new certificate and its key to files.
func (a authority) issue(t *testing.T, certFile, keyFile string) {
	t.Helper()
	der, key := certify(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, a.key)
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", plain)
}

func writePEM(t *testing.T, file, kind string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The server must have a certificate of the operator's authority, and sees a certificate of its own; a renewed one needs
// no restart.
func TestBothSidesShowCertificates(t *testing.T) {
	t.Parallel()
	servers, clients, dir := newAuthority(t), newAuthority(t), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	servers.issue(t, in("server.pem"), in("server.key"))
	pair, err := tls.LoadX509KeyPair(in("server.pem"), in("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(clients.cert)
	f := newFrontend(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted})

	clients.issue(t, in("client.pem"), in("client.key"))
	servers.issue(t, in("wrong.pem"), in("wrong.key"))
	if result, err := open(t, config.Temporal{Address: f.address, CA: servers.file, Cert: in("client.pem"), Key: in("client.key")}).Run(t.Context(), job(t, say)); err != nil || result != "done" {
		t.Errorf("with the right certificates: %q, %v", result, err)
	}
	seen := f.seen()
	for name, c := range map[string]config.Temporal{
		"no certificate":       {CA: servers.file},
		"another certificate":  {CA: servers.file, Cert: in("wrong.pem"), Key: in("wrong.key")},
		"another server":       {CA: clients.file, Cert: in("client.pem"), Key: in("client.key")},
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

	renewed := open(t, config.Temporal{Address: f.address, CA: servers.file, Cert: in("wrong.pem"), Key: in("wrong.key")})
	clients.issue(t, in("wrong.pem"), in("wrong.key"))
	if result, err := renewed.Run(t.Context(), job(t, say)); err != nil || result != "done" {
		t.Errorf("after its certificate was renewed: %q, %v", result, err)
	}
}
