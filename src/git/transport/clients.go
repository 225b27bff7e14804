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
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	maxRedirects = 3
	maxClients   = 32 // CAs that have a client of their own
)

// Clients keeps one HTTP client per set of extra certificates. It may be used by
// several goroutines at once.
type Clients struct {
	admit func(netip.Addr) error

	mu   sync.Mutex
	byCA map[string]*http.Client
}

// NewClients returns clients that dial the addresses that admit returns no error for.
func NewClients(admit func(netip.Addr) error) *Clients {
	return &Clients{admit: admit, byCA: map[string]*http.Client{}}
}

// Get returns the client for r's certificates. It has no time-out of its own: requests
// end with their contexts. Invalid if the certificates cannot be read.
func (c *Clients) Get(r git.Repo) (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, ok := c.byCA[r.CA]; ok {
		return client, nil
	}
	client, err := c.build(r.CA)
	if err != nil {
		return nil, err
	}
	if len(c.byCA) >= maxClients {
		c.dropIdle()
		c.byCA = map[string]*http.Client{}
	}
	c.byCA[r.CA] = client
	return client, nil
}

func (c *Clients) build(ca string) (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM([]byte(ca)) {
			return nil, errs.E(errs.Invalid, "trust", "", errors.New("the CA holds no PEM certificate"))
		}
		conf.RootCAs = pool
	}
	return &http.Client{
		CheckRedirect: sameHost,
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           Dialer(c.admit).DialContext,
			TLSClientConfig:       conf,
			TLSHandshakeTimeout:   DialTimeout,
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
	c.dropIdle()
}

func (c *Clients) dropIdle() {
	for _, client := range c.byCA {
		client.CloseIdleConnections()
	}
}

// sameHost lets a server move a repository within itself, and nothing else.
func sameHost(next *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case first.Method != http.MethodGet:
		return errs.E(errs.Forbidden, "redirect", "", errors.New("the server redirects a request that carries data"))
	case next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host:
		return errs.E(errs.Forbidden, "redirect", "", errors.New("the server redirects to another host; register the new URL"))
	case len(via) > maxRedirects:
		return errs.E(errs.Unavailable, "redirect", "", errors.New("the server redirects again and again"))
	}
	return nil
}
