// Package tlsfiles has TLS of servers and clients with certificates from files. A server reads its files again when they
// change, and a client reads its own certificate for each connection, so these are renewed without a restart. A client reads
// its certificate authorities once.
package tlsfiles

import (
	"crypto/tls"
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

// Load reads the files. Each connection of the returned configuration uses the files as they are then; if
// they cannot be read, or do not fit together, it uses the former ones and logs why.
func Load(f Files, log *slog.Logger) (*tls.Config, error) {
	l := &loader{files: f, log: log}
	l.seen = l.stamps()
	current, err := f.read()
	if err != nil {
		return nil, err
	}
	l.current, l.checked = current, time.Now()
	out := current.Clone() // what servers look into before the first connection
	out.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.config(), nil }
	return out, nil
}

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

type loader struct {
	files Files
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Config // guarded by mu
	seen    string      // stamps of the files that were read last, well or not; guarded by mu
	checked time.Time   // guarded by mu
}

// config returns the configuration of a new connection.
func (l *loader) config() *tls.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.checked) < checkPeriod {
		return l.current
	}
	l.checked = time.Now()
	now := l.stamps()
	if now == l.seen {
		return l.current
	}
	l.seen = now
	next, err := l.files.read()
	if err != nil {
		l.log.Error("the changed TLS certificates are not used; repair the files", "err", err)
		return l.current
	}
	l.current = next
	l.log.Info("new TLS certificates are used", "certificate", l.files.Cert)
	return l.current
}

// stamps changes when a file does.
func (l *loader) stamps() (out string) {
	for _, path := range []string{l.files.Cert, l.files.Key, l.files.ClientCA} {
		if info, err := os.Stat(path); err == nil {
			out += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size())
		}
		out += ";"
	}
	return out
}
