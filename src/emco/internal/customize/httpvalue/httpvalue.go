// Package httpvalue reads values of patches over HTTP, from servers that the operator allows.
package httpvalue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Limits of one value.
const (
	timeout = 10 * time.Second
	maxBody = 64 << 10
)

// Reader reads values. It is safe for concurrent use.
type Reader struct {
	allowed outbound.Prefixes
	client  *http.Client
}

// New returns a reader of URLs that begin with one of the allowed prefixes, such as
// "http://clm.example.org:9061/v2/cluster-providers/", and whose addresses admit returns no
// error for. The error is Invalid for a prefix that is no URL of a directory.
func New(allowed []string, admit func(netip.Addr) error) (*Reader, error) {
	prefixes, err := outbound.ReadPrefixes(allowed)
	if err != nil {
		return nil, err
	}
	client := outbound.Client(admit)
	client.Timeout = timeout
	return &Reader{allowed: prefixes, client: client}, nil
}

// Admit returns Forbidden for a URL that is not allowed, and Invalid for what is no URL.
func (r *Reader) Admit(text string) error {
	u, err := outbound.ReadURL(text)
	if err != nil {
		return errs.New(errs.Invalid, fmt.Sprintf("URL of a value: %s", err))
	}
	if r.allowed.Allow(u) {
		return nil
	}
	return errs.New(errs.Forbidden, fmt.Sprintf("values from %s are not allowed; the operator allows them with outbound.values", outbound.Server(u)+u.Path))
}

// Value implements customize.Values: it returns the member "value" of the JSON that the URL
// answers.
func (r *Reader) Value(ctx context.Context, text string) (json.RawMessage, error) {
	if err := r.Admit(text); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, text, nil)
	if err != nil {
		return nil, errs.New(errs.Invalid, "URL of a value: "+err.Error())
	}
	req.Header.Set("Accept", "application/json")
	resp, body, err := outbound.Exchange(r.client, req, maxBody)
	var answer struct {
		Value json.RawMessage `json:"value"`
	}
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, errs.New(errs.Invalid, fmt.Sprintf("%s: the server answers %s, not 200", text, resp.Status))
	case len(body) > maxBody:
		return nil, errs.New(errs.Invalid, fmt.Sprintf("%s: the answer has more than %d bytes", text, maxBody))
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&answer); err != nil || answer.Value == nil {
		return nil, errs.New(errs.Invalid, text+`: the answer is no JSON object with a member "value"`)
	}
	return answer.Value, nil
}
