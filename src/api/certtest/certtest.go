// Package certtest gives tests certificate authorities, and certificates for this machine.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

// Authority issues certificates.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns an authority.
func New(t testing.TB) Authority {
	t.Helper()
	c := template("test authority")
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	key := newKey(t)
	return Authority{Cert: sign(t, c, c, key, key), key: key}
}

// Issue returns a certificate for a name on this machine, for servers and clients. It is valid for an hour.
func (a Authority) Issue(t testing.TB, name string) tls.Certificate {
	t.Helper()
	return a.IssueUntil(t, name, time.Now().Add(time.Hour))
}

// IssueUntil returns a certificate like Issue's whose end is given.
func (a Authority) IssueUntil(t testing.TB, name string, end time.Time) tls.Certificate {
	t.Helper()
	return a.IssueWith(t, name, func(c *x509.Certificate) { c.NotAfter = end })
}

// IssueWith returns a certificate like Issue's that is changed before it is signed.
func (a Authority) IssueWith(t testing.TB, name string, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	c, key := template(name), newKey(t)
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	change(c)
	return tls.Certificate{Certificate: [][]byte{sign(t, c, a.Cert, key, a.key).Raw}, PrivateKey: key}
}

// Pool returns the authority as what a client or server trusts.
func (a Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.Cert)
	return p
}

// Write writes the authority's certificate to a file.
func (a Authority) Write(t testing.TB, path string) {
	t.Helper()
	write(t, path, "CERTIFICATE", a.Cert.Raw)
}

// WritePair writes a certificate and its key to files.
func WritePair(t testing.TB, cert, key string, pair tls.Certificate) {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, key, "PRIVATE KEY", raw)
	write(t, cert, "CERTIFICATE", pair.Certificate[0])
}

// write replaces a file at once: programs under test read it meanwhile.
func write(t testing.TB, path, kind string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, SerialNumber: big.NewInt(now.UnixNano()),
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, c, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
