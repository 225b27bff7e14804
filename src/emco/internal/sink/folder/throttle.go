package folder

import (
	"fmt"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// ThrottleErrors returns a transport that makes an error of kind Throttled of an answer that asks to
// come back later and says when, since clients do not show that to us. Answers that do not
// say when are handed on.
func ThrottleErrors(next http.RoundTripper) http.RoundTripper { return throttleTransport{next} }

type throttleTransport struct{ next http.RoundTripper }

func (o throttleTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := o.next.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
		return res, err
	}
	after, asked := transport.RetryAfter(res.Header.Get("Retry-After"))
	if !asked {
		return res, nil
	}
	res.Body.Close()
	return nil, errs.Throttle("", "", after, fmt.Errorf("the server answers %d and asks to come back later", res.StatusCode))
}
