package output

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

// plainToTLS is the text of a server with TLS for a request without.
const plainToTLS = "Client sent an HTTP request to an HTTPS server"

// NextOfTLS returns what to do about a server and a client that TLS does not connect; "" for other errors.
func NextOfTLS(err error) string {
	if refusal, ok := errors.AsType[*client.Refusal](err); ok && strings.Contains(refusal.Text, plainToTLS) {
		return "write https:// in the address of the server (--server, $EMCO_URL, the context, or scheme: https in the file)"
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "the server has no TLS: write http:// in its address"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "name the authority of the server's certificate with --ca-file FILE or $EMCO_CA_FILE"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "give an address of the server that its certificate names"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "renew the certificate on the server, or correct the clock of this machine"
		}
		return "give the server a certificate that is valid for servers"
	}
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" && strings.Contains(remote.Err.Error(), "certificate") {
		return "the server refuses the client's certificate, or asks for one; give " + clientCertificate
	}
	if e, ok := errors.AsType[*errs.Error](err); ok && strings.HasPrefix(e.Subject, "https://") && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		// in TLS 1.3 a client may write its request before it reads why it is refused
		return "the server ended the connection; if it asks clients for a certificate, give " + clientCertificate
	}
	return ""
}

// clientCertificate is what a server asks for that refuses the certificate of a client, or a client without one.
const clientCertificate = "one that is valid for clients and that the server accepts: --cert-file and --key-file, or $EMCO_CERT_FILE and $EMCO_KEY_FILE"
