// Package pki creates the keys and certificates of a cluster for one test run.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

// Files are the paths of Write's files; CA contains the certificate too.
type Files struct {
	CA                 []byte // PEM
	CACert, CAKey      string
	ServerCert, Server string // certificate and key of the API server
	AccountKey, Public string // key pair that signs service account tokens
}

// Write creates a certificate authority, a serving certificate for 127.0.0.1 signed by it and a key
// pair for service account tokens, and writes them to dir, which must exist.
func Write(dir string) (Files, error) {
	f := Files{
		CACert: filepath.Join(dir, "ca.crt"), CAKey: filepath.Join(dir, "ca.key"),
		ServerCert: filepath.Join(dir, "server.crt"), Server: filepath.Join(dir, "server.key"),
		AccountKey: filepath.Join(dir, "sa.key"), Public: filepath.Join(dir, "sa.pub"),
	}
	ca, caKey, err := authority(f)
	if err != nil {
		return f, err
	}
	if f.CA, err = os.ReadFile(f.CACert); err != nil {
		return f, err
	}
	if err := serving(f, ca, caKey); err != nil {
		return f, err
	}
	return f, account(f)
}

func authority(f Files) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	t := template("testbed-ca")
	t.IsCA = true
	t.BasicConstraintsValid = true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign
	key, err := writeKey(f.CAKey)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	return cert, key, writePEM(f.CACert, "CERTIFICATE", der)
}

func serving(f Files, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	t := template("kube-apiserver")
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	t.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	key, err := writeKey(f.Server)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	return writePEM(f.ServerCert, "CERTIFICATE", der)
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
