// Package pki creates the keys and certificates of a cluster for one test run.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const lifetime = 30 * 24 * time.Hour

// ProxyName is the name in the certificate Files.ProxyCert.
const ProxyName = "front-proxy-client"

// Files are the paths of Write's files; CA contains the certificate too.
type Files struct {
	CA                 []byte // PEM
	CACert, CAKey      string
	ServerCert, Server string // certificate and key of the API server
	ProxyCert, Proxy   string // of the API server as a client of servers that extend it
	AccountKey, Public string // key pair that signs service account tokens
}

// Write creates a certificate authority, a serving certificate for 127.0.0.1 and one of a front proxy, signed by it, and a
// key pair for service account tokens, and writes them to dir, which must exist.
func Write(dir string) (Files, error) {
	f := Files{
		CACert: filepath.Join(dir, "ca.crt"), CAKey: filepath.Join(dir, "ca.key"),
		ServerCert: filepath.Join(dir, "server.crt"), Server: filepath.Join(dir, "server.key"),
		ProxyCert: filepath.Join(dir, "proxy.crt"), Proxy: filepath.Join(dir, "proxy.key"),
		AccountKey: filepath.Join(dir, "sa.key"), Public: filepath.Join(dir, "sa.pub"),
	}
	if err := authority(f); err != nil {
		return f, err
	}
	var err error
	if f.CA, err = os.ReadFile(f.CACert); err != nil {
		return f, err
	}
	if err := f.Issue(f.ServerCert, f.Server, "kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc"); err != nil {
		return f, err
	}
	if err := f.Issue(f.ProxyCert, f.Proxy, ProxyName); err != nil {
		return f, err
	}
	return f, account(f)
}

func authority(f Files) error {
	t := template("testbed-ca")
	t.IsCA = true
	t.BasicConstraintsValid = true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign
	key, err := writeKey(f.CAKey)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return err
	}
	return writePEM(f.CACert, "CERTIFICATE", der)
}

// Issue writes a certificate of a server or a client on 127.0.0.1, signed by the authority, and its key.
func (f Files) Issue(certificate, private, name string, hosts ...string) error {
	authority, err := tls.LoadX509KeyPair(f.CACert, f.CAKey)
	if err != nil {
		return fmt.Errorf("read the authority: %w", err)
	}
	t := template(name)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	t.DNSNames = append([]string{"localhost"}, hosts...)
	key, err := writeKey(private)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		return err
	}
	return writePEM(certificate, "CERTIFICATE", der)
}

func account(f Files) error {
	key, err := writeKey(f.AccountKey)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(f.Public, "PUBLIC KEY", der)
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(lifetime),
	}
}

func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
