package temporalrunner

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/tlsfiles"
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
		var err error
		if out.RootCAs, err = outbound.ReadAuthorities(c.CA); err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
	}
	if c.Cert != "" {
		var err error
		if out.GetClientCertificate, err = tlsfiles.ClientCertificate(c.Cert, c.Key); err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
	}
	return out, nil
}
