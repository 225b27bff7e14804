package publish

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	exchangeTime  = 30 * time.Second // for one report
	compressAbove = 1 << 10          // larger reports are compressed
	expectAbove   = 256 << 10        // larger reports wait for the control plane to accept the request
	minLimit      = 64 << 10         // a report is not cut below this
	maxAnswer     = 4 << 10          // of an answer, in bytes
	maxTries      = 10               // posts of one report, each adapted to the last answer
)

// Credentials give access to a control plane.
type Credentials struct {
	Token git.Secret
	CA    string // certificates to trust, in addition to the system's
}

// ControlPlane is a connection to a control plane. Many writers may share it.
type ControlPlane struct {
	address *url.URL

	mu       sync.Mutex
	clientCA string       // of client; guarded by mu
	client   *http.Client // guarded by mu; nil before the first use
}

// NewControlPlane returns a connection to the control plane at an address. It does
// not connect yet. The address must use https, because the token is a secret; http is allowed
// only on this machine.
func NewControlPlane(address string) (*ControlPlane, error) {
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("give the address of the control plane, such as https://emco.example.org")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the address must not have a credential, query or fragment")
	case u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())):
		return nil, fmt.Errorf("%q would expose the token; use https", u.Scheme)
	}
	return &ControlPlane{address: u}, nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// clientFor returns a client that trusts the given certificates.
func (c *ControlPlane) clientFor(ca string) (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil && c.clientCA == ca {
		return c.client, nil
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("the file of certificates to trust has no certificate")
		}
		trust.RootCAs = pool
	}
	if c.client != nil {
		c.client.CloseIdleConnections()
	}
	c.clientCA, c.client = ca, &http.Client{
		Timeout: exchangeTime,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
			ExpectContinueTimeout: 5 * time.Second, IdleConnTimeout: 2 * time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this address only
	}
	return c.client, nil
}

// HTTPS posts reports to the control plane. A report that has not changed is sent as a
// reference to the last one.
type HTTPS struct {
	controlPlane *ControlPlane
	path         string
	credentials  func() (Credentials, error)
	limit        int

	seq        sequence
	sentDigest string // of the last report that arrived
	documentID string // its id on the control plane; empty if unknown
}

// NewHTTPS returns a writer for a cluster. limit bounds a report in bytes; 0 means
// status.MaxSize.
func NewHTTPS(to *ControlPlane, credentials func() (Credentials, error), cluster v2.ClusterKey, limit int) *HTTPS {
	if limit <= 0 {
		limit = status.MaxSize
	}
	return &HTTPS{controlPlane: to, path: status.Path(cluster), credentials: credentials, limit: limit}
}

// Write posts a report. When it returns without an error, the report is durable. A refusal
// because of the sequence, of an unknown reference or of the size makes it post an adapted
// report.
func (h *HTTPS) Write(ctx context.Context, r status.Report) error {
	a, err := h.credentials()
	if err != nil {
		return err
	}
	for range maxTries {
		var again bool
		if again, err = h.try(ctx, a, r); err == nil || !again {
			return err
		}
	}
	return err
}

// try posts once. again reports whether an adapted report may be accepted.
func (h *HTTPS) try(ctx context.Context, a Credentials, r status.Report) (again bool, err error) {
	digest := status.Digest(r)
	short := h.documentID != "" && digest == h.sentDigest
	r.Seq = h.seq.next(time.Now())
	if short {
		r = status.Report{Cluster: r.Cluster, Seq: r.Seq, At: r.At, Agent: r.Agent, Same: h.documentID}
	}
	text, err := status.Encode(r, h.limit)
	if err != nil {
		return false, err
	}
	res, err := h.post(ctx, a, text)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 2 {
		h.sentDigest, h.documentID = digest, strings.Trim(res.Header.Get("ETag"), `"`)
		return false, nil
	}
	return h.adapt(res, short, len(text)), refusal(res)
}

// adapt adapts the next report to a refusal. It reports whether that makes a difference.
func (h *HTTPS) adapt(res *http.Response, short bool, size int) bool {
	switch res.StatusCode {
	case http.StatusPreconditionFailed:
		h.documentID = ""
		return short
	case http.StatusConflict:
		last, err := strconv.ParseUint(res.Header.Get(status.SequenceHeader), 10, 64)
		above := err == nil && last >= uint64(h.seq)
		h.seq.atLeast(last)
		return above
	case http.StatusRequestEntityTooLarge:
		smaller := min(h.limit, size) / 2
		if smaller < minLimit {
			return false
		}
		h.limit = smaller
		return true
	}
	return false
}

func (h *HTTPS) post(ctx context.Context, a Credentials, text []byte) (*http.Response, error) {
	client, err := h.controlPlane.clientFor(a.CA)
	if err != nil {
		return nil, err
	}
	body, coding := text, ""
	if len(text) > compressAbove {
		body, coding = compress(text), "gzip"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.controlPlane.address.String()+h.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.Token.Reveal())
	req.Header.Set("Content-Type", "application/json")
	if coding != "" {
		req.Header.Set("Content-Encoding", coding)
	}
	if len(body) > expectAbove {
		req.Header.Set("Expect", "100-continue")
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, errs.E(errs.Unavailable, "report", "to "+h.controlPlane.address.Host, err)
	}
	return res, nil
}

func compress(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text) // to memory
	_ = w.Close()
	return out.Bytes()
}

// refusal is the error of an answer, with the time from Retry-After if it has one.
func refusal(res *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	why := fmt.Errorf("the control plane answers %s: %s", res.Status, strings.TrimSpace(string(text)))
	out := &errs.Error{Kind: errs.FromStatus(res.StatusCode), Op: "report", Subject: "to " + res.Request.URL.Host, Err: why}
	if seconds, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16); err == nil {
		out.After = time.Duration(seconds) * time.Second
	}
	return out
}
