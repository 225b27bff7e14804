package tlsfiles

import "crypto/tls"

// ClientCertificate returns a function for tls.Config.GetClientCertificate with the certificate of two PEM files. Each
// connection reads them, so that a renewed certificate needs no restart.
func ClientCertificate(cert, key string) (func(*tls.CertificateRequestInfo) (*tls.Certificate, error), error) {
	read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}
	_, err := read(nil)
	return read, err
}
