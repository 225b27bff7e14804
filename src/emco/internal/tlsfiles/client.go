package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Client names what a client needs, as PEM.
type Client struct {
	CA        string // authorities of servers; empty: those of the system
	Cert, Key string // of the client, with its chain; both or none
}

// Config returns the TLS of connections; nil without files. An error begins with "ca" or "cert", the names of the settings;
// that of the key is not the same everywhere.
func (c Client) Config() (out *tls.Config, err error) {
	if c == (Client{}) {
		return nil, nil
	}
	out = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		if out.RootCAs, err = outbound.ReadAuthorities(c.CA); err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		return nil, errors.New("cert: set it with its key, or neither")
	}
	if c.Cert != "" {
		if out.GetClientCertificate, err = clientCertificate(c.Cert, c.Key); err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
	}
	return out, nil
}

// FirstEnd returns when the first certificate of a client in some PEM files ends, without those of authorities behind it; zero
// if no path names a file.
func FirstEnd(certs []string) (first time.Time, err error) {
	for _, path := range certs {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return first, err
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return first, fmt.Errorf("%s: no PEM certificate", path)
		}
		own, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return first, fmt.Errorf("%s: %w", path, err)
		}
		if first.IsZero() || own.NotAfter.Before(first) {
			first = own.NotAfter
		}
	}
	return first, nil
}

// clientCertificate returns a function for tls.Config.GetClientCertificate with the certificate of two PEM files. Each
// connection reads them, so that a renewed certificate needs no restart.
func clientCertificate(cert, key string) (func(*tls.CertificateRequestInfo) (*tls.Certificate, error), error) {
	read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}
	_, err := read(nil)
	return read, err
}
