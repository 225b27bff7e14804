// Package tlsfiles has TLS of servers and clients with certificates from files. A server reads its files again when they
// change, and a client reads its own certificate for each connection, so these are renewed without a restart. A client reads
// its certificate authorities once.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Files name what a server needs, as PEM.
type Files struct {
	Cert, Key string // of the server, with its chain
	ClientCA  string // authorities; clients need a certificate of one of them. Empty: clients need none
	Optional  bool   // clients may do without a certificate; one that they have must be good
}

// checkPeriod is how often handshakes look whether the files have changed.
const checkPeriod = time.Second

// Load reads the files. It logs a warning if clients refuse the certificate because of its dates.
func Load(f Files, log *slog.Logger) (*Server, error) {
	s := &Server{files: f, log: log}
	s.seen = s.stamps()
	current, err := f.read()
	if err != nil {
		return nil, err
	}
	s.current, s.checked = current, time.Now()
	s.warn()
	return s, nil
}

// Server has the certificate of a server, and the authorities of its clients. It is safe for concurrent use.
type Server struct {
	files Files
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Config // guarded by mu
	seen    string      // stamps of the files that were read last, well or not; guarded by mu
	checked time.Time   // guarded by mu
}

// Config returns the TLS of listeners. Each connection uses the files as they are then; if they cannot be read, or do not fit
// together, it uses the former ones and logs why.
func (s *Server) Config() *tls.Config {
	out := s.config().Clone() // what servers look into before the first connection
	out.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.config(), nil }
	return out
}

// End returns when the certificate ends that the next connection uses.
func (s *Server) End() time.Time { return leaf(s.config()).NotAfter }

// Fault returns why clients refuse the certificate now, as far as its dates tell; nil if they do not.
func (s *Server) Fault() error { return s.files.fault(s.config()) }

func (f Files) fault(c *tls.Config) error {
	switch own, now := leaf(c), time.Now(); {
	case now.After(own.NotAfter):
		return fmt.Errorf("clients refuse the certificate in %s: it ended at %s", f.Cert, own.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(own.NotBefore):
		return fmt.Errorf("clients refuse the certificate in %s: it is not valid before %s", f.Cert, own.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// leaf returns the certificate of the server itself.
func leaf(c *tls.Config) *x509.Certificate { return c.Certificates[0].Leaf }

func (f Files) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if f.ClientCA == "" {
		return c, nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if f.Optional {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	c.ClientCAs, err = outbound.ReadAuthorities(f.ClientCA)
	return c, err
}

// config returns the configuration of a new connection.
func (s *Server) config() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.checked) < checkPeriod {
		return s.current
	}
	s.checked = time.Now()
	now := s.stamps()
	if now == s.seen {
		return s.current
	}
	s.seen = now
	next, err := s.files.read()
	if err != nil {
		s.log.Error("the changed TLS certificates are not used; repair the files", "err", err)
		return s.current
	}
	s.current = next
	s.log.Info("new TLS certificates are used", "certificate", s.files.Cert, "end", leaf(next).NotAfter.UTC())
	s.warn()
	return s.current
}

// warn logs what is wrong with the dates of the current certificate. The caller holds mu, or is alone.
func (s *Server) warn() {
	if fault := s.files.fault(s.current); fault != nil {
		s.log.Warn("the TLS certificate of the API is used although clients refuse it; renew it", "err", fault)
	}
}

// stamps changes when a file does.
func (s *Server) stamps() (out string) {
	for _, path := range []string{s.files.Cert, s.files.Key, s.files.ClientCA} {
		if info, err := os.Stat(path); err == nil {
			out += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size())
		}
		out += ";"
	}
	return out
}
