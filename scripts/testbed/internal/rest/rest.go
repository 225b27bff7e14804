// Package rest exchanges JSON with one API server as its administrator.
package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// most is the largest size of an answer.
const most = 8 << 20

// Client is a connection to an API server.
type Client struct {
	server, token string
	http          *http.Client
}

// New returns a client that trusts only the certificate authority ca (PEM).
func New(server, token string, ca []byte) (*Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("certificate authority of " + server + " is not a PEM certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	return &Client{server: server, token: token, http: &http.Client{Transport: transport, Timeout: 30 * time.Second}}, nil
}

// Get reads a path into out, which may be nil.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// Post creates in. It is no error if in exists.
func (c *Client) Post(ctx context.Context, path string, in any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	err = c.do(ctx, http.MethodPost, path, body, nil)
	if s, ok := errors.AsType[*statusError](err); ok && s.code == http.StatusConflict {
		return nil
	}
	return err
}

// Close frees the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) do(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return &statusError{method: method, path: path, code: resp.StatusCode, body: string(data)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

type statusError struct {
	method, path string
	code         int
	body         string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s %s: %d %s: %.400s", e.method, e.path, e.code, http.StatusText(e.code), e.body)
}
