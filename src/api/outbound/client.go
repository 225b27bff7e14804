package outbound

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

const (
	maxHeader = 64 << 10 // bytes of the header of an answer
	maxShown  = 300      // bytes of an answer in an error
)

// Client returns a client for servers that users name. It connects to the addresses that check accepts,
// and follows no redirect.
func Client(check func(netip.Addr) error) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: Dialer(check).DialContext, TLSHandshakeTimeout: DialTimeout,
			MaxIdleConns: 32, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Exchange sends a request, and returns the answer with its body, at most limit bytes and one more. The
// error is Unavailable if another attempt may succeed: without an answer, and for answers 408, 425, 429 and
// 500 to 599. It is Forbidden for an address that must not be dialled.
func Exchange(c *http.Client, r *http.Request, limit int64) (*http.Response, []byte, error) {
	at := r.URL.Redacted()
	resp, err := c.Do(r)
	switch {
	case errs.Is(err, errs.Forbidden):
		return nil, nil, errs.E(errs.Forbidden, "call", at, err)
	case err != nil:
		return nil, nil, errs.E(errs.Unavailable, "call", at, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, nil, errs.E(errs.Unavailable, "read the answer of", at, err)
	}
	switch code := resp.StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return nil, nil, errs.E(errs.Unavailable, "call", at, fmt.Errorf("the server answers %s%s", resp.Status, Shown(body)))
	}
	return resp, body, nil
}

// Shown returns the beginning of an answer for an error, in one line, after a colon.
func Shown(body []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "")), " ")
	if text == "" {
		return ""
	}
	return ": " + strings.ToValidUTF8(text[:min(len(text), maxShown)], "")
}
