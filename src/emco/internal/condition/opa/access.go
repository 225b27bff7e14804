package opa

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Access is how a server is asked. The zero Access trusts the authorities of the system and has no token.
type Access struct {
	TLS   *tls.Config
	Token func() (string, error) // read for each question; nil: none
}

func (a Access) client(admit func(netip.Addr) error) *http.Client {
	client := outbound.Client(admit)
	client.Timeout = timeout
	if a.TLS != nil {
		client.Transport.(*http.Transport).TLSClientConfig = a.TLS
	}
	if a.Token != nil {
		client.Transport = withToken{a.Token, client.Transport}
	}
	return client
}

// withToken sends a bearer token. Users read errors with the beginning of answers, so the token is removed from what errors
// show, and an error does not name the token's file.
type withToken struct {
	token func() (string, error)
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := t.token()
	if err != nil {
		_ = r.Body.Close() // a RoundTripper must
		return nil, errors.New("its token cannot be read; the operator repairs the file in outbound.engineAccess")
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if !decoded(resp.StatusCode, body) {
		body = bytes.ReplaceAll(body, []byte(token), []byte("***"))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.Status = fmt.Sprint(resp.StatusCode, " ", http.StatusText(resp.StatusCode))
	return resp, nil
}

// decoded reports whether an answer is read as that of a rule. No error shows such an answer, so it stays as it is: the token may be
// a word of JSON. All other answers are texts, which errors show.
func decoded(status int, body []byte) bool {
	var object map[string]json.RawMessage
	return status == http.StatusOK && json.Unmarshal(body, &object) == nil
}
