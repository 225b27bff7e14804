package plain

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	dialTimeout  = 10 * time.Second
	maxRedirects = 3
	maxClients   = 32               // CAs that have a client of their own
	defaultWait  = 60 * time.Second // when a server throttles and does not say for how long
)

// clients keeps one HTTP client per set of extra certificates.
type clients struct {
	admit func(netip.Addr) error

	mu   sync.Mutex
	byCA map[string]*http.Client
}

// get returns the client for r's certificates.
func (c *clients) get(r git.Repo) (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, ok := c.byCA[r.CA]; ok {
		return client, nil
	}
	client, err := c.build(r.CA)
	if err != nil {
		return nil, err
	}
	if c.byCA == nil || len(c.byCA) >= maxClients {
		c.dropIdle()
		c.byCA = map[string]*http.Client{}
	}
	c.byCA[r.CA] = client
	return client, nil
}

func (c *clients) build(ca string) (*http.Client, error) {
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
			DialContext:           dialer(c.admit).DialContext,
			TLSClientConfig:       conf,
			TLSHandshakeTimeout:   dialTimeout,
			ResponseHeaderTimeout: time.Minute,
			IdleConnTimeout:       30 * time.Second,
			MaxIdleConnsPerHost:   8,
			ForceAttemptHTTP2:     true,
		},
	}, nil
}

func (c *clients) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropIdle()
}

func (c *clients) dropIdle() {
	for _, client := range c.byCA {
		client.CloseIdleConnections()
	}
}

// dialer checks each address after name resolution, when a name can no longer
// turn into another address.
func dialer(admit func(netip.Addr) error) *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return admit(at.Addr())
	}}
}

// sameHost lets a server move a repository within itself, and nothing else: the
// next request would carry the credentials to whoever the server names.
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

// httpSession speaks the stateless form of the protocol: GET the advertisement,
// POST the request.
type httpSession struct {
	client  *http.Client
	repo    git.Repo
	base    string
	service string
	replies []io.Closer
	first   io.Reader
}

func (h *Host) dialHTTP(ctx context.Context, r git.Repo, service string) (session, error) {
	client, err := h.clients.get(r)
	if err != nil {
		return nil, err
	}
	s := &httpSession{client: client, repo: r, base: strings.TrimRight(r.URL, "/"), service: service}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/info/refs?service="+service, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.do(req, "advertisement")
	if err != nil {
		return nil, err
	}
	moved := *resp.Request.URL
	moved.RawQuery = ""
	s.base = strings.TrimSuffix(moved.String(), "/info/refs")
	s.first = buffered(resp.Body)
	return s, nil
}

func (s *httpSession) advert() io.Reader { return s.first }

func (s *httpSession) exchange(ctx context.Context, body io.Reader, size int64) (io.Reader, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/"+s.service, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", "application/x-"+s.service+"-request")
	req.Header.Set("Accept", "application/x-"+s.service+"-result")
	resp, err := s.do(req, "result")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// do sends a request with the credentials and insists on a Git answer.
func (s *httpSession) do(req *http.Request, what string) (*http.Response, error) {
	req.Header.Set("User-Agent", "emco")
	if s.repo.Token != "" {
		user := s.repo.User
		if user == "" {
			user = "emco"
		}
		req.SetBasicAuth(user, s.repo.Token.Reveal())
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	s.replies = append(s.replies, resp.Body)
	if err := checkStatus(resp); err != nil {
		s.close(true)
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); kind != "application/x-"+s.service+"-"+what {
		s.close(false)
		return nil, errs.E(errs.Unavailable, s.service, "", errors.New("the answer is not Git's; is the URL that of a repository, and is there a login page or a proxy before it?"))
	}
	return resp, nil
}

func (s *httpSession) explain(err error) error { return err }

func (s *httpSession) close(clean bool) {
	for _, reply := range s.replies {
		if r, ok := reply.(io.Reader); ok && clean {
			_, _ = io.CopyN(io.Discard, r, 64<<10) // lets the connection be used again
		}
		_ = reply.Close()
	}
	s.replies = nil
}

// checkStatus maps HTTP statuses to kinds. The body is the server's own page and is
// not shown but for a short plain text.
func checkStatus(resp *http.Response) error {
	code := resp.StatusCode
	if code == http.StatusOK {
		return nil
	}
	cause := fmt.Errorf("the server answers %d %s%s", code, http.StatusText(code), plainText(resp))
	wait, asked := retryAfter(resp.Header.Get("Retry-After"))
	switch {
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && asked:
		return errs.Throttle("", "", wait, cause)
	case code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		return errs.E(errs.Unauthorized, "", "", cause)
	case code == http.StatusForbidden:
		return errs.E(errs.Forbidden, "", "", cause)
	case code == http.StatusNotFound, code == http.StatusGone:
		return errs.E(errs.NotFound, "", "", cause)
	case code == http.StatusRequestEntityTooLarge:
		return errs.E(errs.TooLarge, "", "", cause)
	case code >= 300 && code < 500 && code != http.StatusRequestTimeout:
		return errs.E(errs.Invalid, "", "", cause)
	}
	if !asked {
		wait = 0
	}
	return &errs.Error{Kind: errs.Unavailable, Err: cause, After: wait}
}

func plainText(resp *http.Response) string {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 500))
	if err != nil || len(text) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(text))
}

// retryAfter reads seconds or a date, and says whether the header was there. No
// wait is longer than an hour.
func retryAfter(header string) (time.Duration, bool) {
	if header == "" {
		return defaultWait, false
	}
	if n, err := strconv.Atoi(header); err == nil && n >= 0 {
		return min(time.Duration(min(n, 3600))*time.Second, time.Hour), true
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(time.Until(at), 0), time.Hour), true
	}
	return defaultWait, true
}
