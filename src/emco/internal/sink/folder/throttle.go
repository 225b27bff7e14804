package folder

import (
	"fmt"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// ThrottleErrors returns a transport that turns throttling answers with a Retry-After
// header into errors of kind Throttled: client libraries drop the header. Answers without
// the header pass.
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
	return nil, errs.Throttle("", "", after, fmt.Errorf("the server answers %d and requests a retry later", res.StatusCode))
}
