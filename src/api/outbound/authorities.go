package outbound

import (
	"crypto/x509"
	"errors"
	"os"
)

// ReadAuthorities returns the certificates of a PEM file, for clients or servers to trust.
func ReadAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("no PEM certificate in " + file)
	}
	return pool, nil
}
