package temporalrunner

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// tlsOf returns how connections are secured; nil for none. Each connection reads the client certificate, so a renewed one
// needs no restart.
func tlsOf(c config.Temporal) (*tls.Config, error) {
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return nil, errors.New("cert and key: set both, or none")
	case c.Cert == "" && c.CA == "":
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: no certificate in %s", c.CA)
		}
	}
	if c.Cert == "" {
		return out, nil
	}
	if _, err := tls.LoadX509KeyPair(c.Cert, c.Key); err != nil {
		return nil, fmt.Errorf("cert and key: %w", err)
	}
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		return &pair, err
	}
	return out, nil
}
