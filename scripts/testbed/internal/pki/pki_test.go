package pki

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
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

func TestACertificateIsIssuedForItsHosts(t *testing.T) {
	dir := t.TempDir()
	f, err := Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if err := f.Issue(certificate, key, "hook", "hook.system.svc"); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(f.CA)
	for _, host := range []string{"127.0.0.1", "localhost", "hook.system.svc"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("Verify for %s: %v", host, err)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "other.system.svc"}); err == nil {
		t.Error("Verify for a host without the certificate: no error")
	}
	if got := pair.Leaf.Subject.CommonName; got != "hook" {
		t.Errorf("the certificate names %q, want hook", got)
	}
}
