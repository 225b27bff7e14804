package pki

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

func TestTheServingCertificateIsTrustedForLoopback(t *testing.T) {
	f, err := Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(f.ServerCert, f.Server)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(f.CA) {
		t.Fatalf("CA is not a certificate: %s", f.CA)
	}
	for _, name := range []string{"127.0.0.1", "localhost"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("Verify for %s: %v", name, err)
		}
	}
}
