// Package client is a client of the EMCO REST API: it sends requests to one address,
// bounds the answers, and turns refusals into errors with a kind. emcoctl, simfleet,
// package rest, tests and benchmarks use it. It imports the standard library and packages of this module only.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Limits for zero fields of Options.
const (
	DefaultTimeout  = 60 * time.Second // until the header of an answer
	DefaultMaxBytes = 64 << 20         // of one answer held in memory
	MaxFileBytes    = 1 << 30          // of one answer that is only hashed or copied
)

// Token is a bearer token. It prints as "***"; only Reveal gives it.
type Token string

// String hides the token.
func (Token) String() string { return "***" }

// GoString hides the token from %#v.
func (Token) GoString() string { return "***" }

// MarshalText hides the token from encoders and from log/slog.
func (Token) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Reveal returns the token itself.
func (t Token) Reveal() string { return string(t) }

// Options configure a Client.
type Options struct {
	BaseURL   string        // scheme, host and port, such as http://127.0.0.1:9015
	Token     Token         // sent as Authorization: Bearer; none if empty
	CAFile    string        // PEM certificates to trust instead of the system's
	CertFile  string        // PEM certificate of the client, with its chain; none if empty
	KeyFile   string        // PEM key of CertFile
	Timeout   time.Duration // from the end of the request to the header of the answer; DefaultTimeout if zero
	MaxBytes  int64         // the largest answer read into memory; DefaultMaxBytes if zero
	UserAgent string        // "emco-client" if empty
	Patience  time.Duration // how long a request waits altogether when the server asks it to come back later (429); not at all if zero

	// TokenFor returns the token to send to a server, by its address; empty for none. It is asked before each
	// request if Token is empty, so that a token can be renewed meanwhile. nil: none.
	TokenFor func(ctx context.Context, server string) (Token, error)
}

// Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	base string
	opts Options
	http *http.Client
}

// New returns a client. The error is Invalid if the address or the CA file cannot
// be used; nothing is sent.
func New(o Options) (*Client, error) {
	base, err := ParseBase(o.BaseURL)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(&o)
	if err != nil {
		return nil, err
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.UserAgent == "" {
		o.UserAgent = "emco-client"
	}
	return &Client{base: base, opts: o, http: &http.Client{Transport: transport, CheckRedirect: stay}}, nil
}

// stay refuses redirects: a token must not follow one, and the API has none.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ParseBase checks a server address and returns it without a trailing slash or
// "/v2"; the scheme is http if none is given.
func ParseBase(address string) (string, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", errs.New(errs.Invalid, "server address: not a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errs.E(errs.Invalid, "server address", u.Redacted(), errors.New("scheme must be http or https"))
	case u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return "", errs.E(errs.Invalid, "server address", u.Redacted(), errors.New("must be http(s)://host:port"))
	case u.User != nil:
		return "", errs.E(errs.Invalid, "server address", u.Redacted(), errors.New("must hold no password; use a token"))
	}
	path := strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v2")
	return u.Scheme + "://" + u.Host + path, nil
}

func newTransport(o *Options) (*http.Transport, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: o.Timeout,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   8,
		ForceAttemptHTTP2:     true,
	}
	trust, err := newTrust(o)
	if err != nil {
		return nil, err
	}
	t.TLSClientConfig = trust
	return t, nil
}

// newTrust returns TLS settings with the authorities and the certificate of the client; nil if the options name neither,
// which means the system's authorities and no certificate.
func newTrust(o *Options) (*tls.Config, error) {
	if o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		var err error
		if c.RootCAs, err = outbound.ReadAuthorities(o.CAFile); err != nil {
			return nil, errs.E(errs.Invalid, "read CA file", "", err)
		}
	}
	switch {
	case o.CertFile == "" && o.KeyFile == "":
		return c, nil
	case o.CertFile == "" || o.KeyFile == "":
		return nil, errs.New(errs.Invalid, "a client certificate needs the file of the certificate and the file of its key")
	}
	pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, errs.E(errs.Invalid, "read client certificate", "", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// URL returns the full address of a path below /v2, such as
// "projects/p1" or "projects/p1/logical-clouds/lc/status?output=summary". A path
// with a leading slash is not below /v2, such as "/version".
func (c *Client) URL(path string) string {
	if strings.HasPrefix(path, "/") {
		return c.base + path
	}
	return c.base + "/v2/" + path
}

// Request is one call. Method and Path are mandatory.
type Request struct {
	Method  string
	Path    string // as for URL: with the query if any, already escaped
	Accept  string // no Accept header if empty
	IfMatch string // compare-and-swap on an entity tag; not sent if empty
	Key     string // Idempotency-Key: the server acts once on requests with the same key; not sent if empty
	IfPlan  string // the digest of the plan that the action must carry out; not sent if empty
	Body    Body   // nil for none
}

// Response is an answer read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// OK reports whether the status is 2xx.
func (r *Response) OK() bool { return r.Status >= 200 && r.Status < 300 }

// ETag returns the entity tag, empty if the server gives none.
func (r *Response) ETag() string { return r.Header.Get("ETag") }

// Do sends a request and reads the whole answer. An answer of any status is no error here:
// see Response.Err. Errors are Unavailable if the server cannot be reached or stops
// answering, TooLarge if the answer is above the limit, Invalid if the request cannot be
// built, and the context's error if the context ended.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	res, err := c.patient(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return c.whole(ctx, r, res)
}

// whole reads an answer to its end.
func (c *Client) whole(ctx context.Context, r Request, res *http.Response) (*Response, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, c.opts.MaxBytes+1))
	if err != nil {
		return nil, c.broken(ctx, r, err)
	}
	if int64(len(body)) > c.opts.MaxBytes {
		return nil, errs.E(errs.TooLarge, r.Method, r.Path, fmt.Errorf("answer is above %d bytes", c.opts.MaxBytes))
	}
	return &Response{Status: res.StatusCode, Header: res.Header, Body: body}, nil
}

// Copy sends a request and writes a 2xx answer's body to w, at most MaxFileBytes;
// other answers come back in the Response, whose Body is otherwise empty. Errors
// are those of Do.
func (c *Client) Copy(ctx context.Context, r Request, w io.Writer) (*Response, error) {
	res, err := c.patient(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	out := &Response{Status: res.StatusCode, Header: res.Header}
	if !out.OK() {
		if out.Body, err = io.ReadAll(io.LimitReader(res.Body, maxErrorText)); err != nil {
			return nil, c.broken(ctx, r, err)
		}
		return out, nil
	}
	n, err := io.Copy(w, io.LimitReader(res.Body, MaxFileBytes+1))
	if err != nil {
		return nil, c.broken(ctx, r, err)
	}
	if n > MaxFileBytes {
		return nil, errs.E(errs.TooLarge, r.Method, r.Path, errors.New("file is above 1 GiB"))
	}
	return out, nil
}

// patient repeats a request while the server answers 429 with a time for the retry: it has done nothing
// then.
func (c *Client) patient(ctx context.Context, r Request) (*http.Response, error) {
	left := c.opts.Patience
	for {
		res, err := c.send(ctx, r)
		if err != nil || res.StatusCode != http.StatusTooManyRequests {
			return res, err
		}
		wait := retryAfter(res.Header)
		if wait == 0 || wait > left {
			return res, nil
		}
		left -= wait
		_ = res.Body.Close()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// send sends a request and returns the answer with its body unread.
func (c *Client) send(ctx context.Context, r Request) (*http.Response, error) {
	var body io.ReadCloser
	if r.Body != nil {
		opened, err := r.Body.Open()
		if err != nil {
			return nil, err
		}
		body = opened
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, c.URL(r.Path), body)
	if err != nil {
		if body != nil {
			_ = body.Close() // the error of the request matters
		}
		return nil, errs.E(errs.Invalid, r.Method, r.Path, errors.New("not a valid path"))
	}
	if err := c.head(ctx, req, r); err != nil {
		if body != nil {
			_ = body.Close() // the error of the token matters
		}
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(ctx, r, err)
	}
	return res, nil
}

func (c *Client) head(ctx context.Context, req *http.Request, r Request) error {
	req.Header.Set("User-Agent", c.opts.UserAgent)
	if r.Accept != "" {
		req.Header.Set("Accept", r.Accept)
	}
	if r.IfMatch != "" {
		req.Header.Set("If-Match", r.IfMatch)
	}
	if r.Key != "" {
		req.Header.Set("Idempotency-Key", r.Key)
	}
	if r.IfPlan != "" {
		req.Header.Set("If-Plan", r.IfPlan)
	}
	token := c.opts.Token
	if token == "" && c.opts.TokenFor != nil {
		var err error
		if token, err = c.opts.TokenFor(ctx, c.base); err != nil {
			return err
		}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", r.Body.ContentType())
		req.ContentLength = r.Body.Size()
		req.GetBody = r.Body.Open
	}
	return nil
}

// broken returns the error of a call without an answer. It omits the URL of net/http's
// error: the path is there already.
func (c *Client) broken(ctx context.Context, r Request, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if _, ok := errors.AsType[*errs.Error](err); ok {
		return err
	}
	return errs.E(errs.Unavailable, r.Method, c.URL(r.Path), err)
}

// retryAfter reads the header in its seconds form; zero if absent or a date.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}
