package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/git"
)

// maxClients bounds the sets of certificates that have a client of their own.
const maxClients = 32

// Clients keeps one HTTP client per set of certificates. It may be used by several goroutines at
// once.
type Clients struct {
	admit func(netip.Addr) error

	mu      sync.Mutex
	clients map[clientCertificates]*http.Client // guarded by mu
}

// clientCertificates are those that a client trusts and presents.
type clientCertificates struct {
	ca, cert string
	key      git.Secret
}

// NewClients returns clients that dial the addresses that admit returns no error for.
func NewClients(admit func(netip.Addr) error) *Clients {
	return &Clients{admit: admit, clients: map[clientCertificates]*http.Client{}}
}

// Get returns the client for r's certificates. It has no time-out of its own: requests
// end with their contexts. Invalid if the certificates cannot be read.
func (c *Clients) Get(r git.Repo) (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	with := clientCertificates{ca: r.CA, cert: r.ClientCert, key: r.ClientKey}
	if client, ok := c.clients[with]; ok {
		return client, nil
	}
	client, err := c.build(with)
	if err != nil {
		return nil, err
	}
	if len(c.clients) >= maxClients {
		c.closeIdleLocked()
		clear(c.clients)
	}
	c.clients[with] = client
	return client, nil
}

func (c *Clients) build(with clientCertificates) (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if with.cert != "" || with.key != "" {
		pair, err := tls.X509KeyPair([]byte(with.cert), []byte(with.key.Reveal()))
		if err != nil {
			return nil, errs.E(errs.Invalid, "trust", "", errors.New("the client certificate and its key are not a pair in PEM"))
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	if with.ca != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM([]byte(with.ca)) {
			return nil, errs.E(errs.Invalid, "trust", "", errors.New("the CA holds no PEM certificate"))
		}
		conf.RootCAs = pool
	}
	return &http.Client{
		CheckRedirect: outbound.WithinServer,
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           outbound.Dialer(c.admit).DialContext,
			TLSClientConfig:       conf,
			TLSHandshakeTimeout:   outbound.DialTimeout,
			ResponseHeaderTimeout: time.Minute,
			IdleConnTimeout:       30 * time.Second,
			MaxIdleConnsPerHost:   8,
			ForceAttemptHTTP2:     true,
		},
	}, nil
}

// CloseIdle drops idle connections. The clients stay usable.
func (c *Clients) CloseIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeIdleLocked()
}

func (c *Clients) closeIdleLocked() {
	for _, client := range c.clients {
		client.CloseIdleConnections()
	}
}
