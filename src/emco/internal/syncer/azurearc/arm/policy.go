package arm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// budgetPolicy is the first policy of a pipeline. It keeps requests within the account's
// budget, refuses other hosts than the resource manager, so that tokens stay there whatever
// address a poller follows, and turns every answer but 2xx into an error with a kind.
type budgetPolicy struct {
	budget  *budget
	manager *url.URL
}

// Do implements policy.Policy.
func (g budgetPolicy) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	if r.URL.Scheme != g.manager.Scheme || r.URL.Host != g.manager.Host {
		return nil, errs.E(errs.Unavailable, "follow", subject(r), errors.New("the operation is on another host, which is refused"))
	}
	if wait, why := g.budget.take(r.Method != http.MethodGet); wait > 0 {
		return nil, errs.Throttle(verb(r), subject(r), wait, why)
	}
	resp, err := req.Next()
	if err != nil {
		err = unsent(r, err)
		if errs.Is(err, errs.Unavailable) && r.Context().Err() == nil {
			g.budget.unreachable(brief(err))
		}
		return nil, err
	}
	g.budget.heed(resp.StatusCode, resp.Header)
	if resp.StatusCode > 299 {
		return nil, refusal(r, resp)
	}
	return resp, nil
}

func verb(r *http.Request) string { return strings.ToLower(r.Method) }

// noise is what the addresses of all resources have in common.
var noise = regexp.MustCompile(`^/subscriptions/[^/]+/resourceGroups/|providers/[^/]+/`)

// subject names the resource of a request: "edge/connectedClusters/site-1/fluxConfigurations/config-7".
func subject(r *http.Request) string { return noise.ReplaceAllString(r.URL.Path, "") }

// unsent is the error of a request that got no token or no answer.
func unsent(r *http.Request, err error) error {
	if _, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok {
		return unauthenticated(err)
	}
	return errs.E(errs.Unavailable, verb(r), subject(r), brief(err))
}

// brief removes addresses from the error of a transport.
func brief(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// errorBody is Azure's description of an error.
type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// maxText bounds what is shown of Azure's text.
const maxText = 300

func (f errorBody) String() string {
	text := strings.Join(strings.Fields(f.Code+": "+f.Message), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return strings.Trim(text, ": ")
}

// refusal is the error of an answer above 299.
func refusal(r *http.Request, resp *http.Response) error {
	var body struct{ Error errorBody }
	text, err := runtime.Payload(resp)
	if err == nil {
		_ = json.Unmarshal(text, &body) // without a fault the status is enough
	}
	why := fmt.Errorf("answered with %d %s", resp.StatusCode, cmp.Or(body.Error.String(), http.StatusText(resp.StatusCode)))
	switch resp.StatusCode {
	case http.StatusPreconditionFailed:
		return errs.E(errs.Conflict, verb(r), subject(r), ErrChanged)
	case http.StatusTooManyRequests:
		return errs.Throttle(verb(r), subject(r), retryAfter(resp.Header), why)
	}
	kind := errs.FromStatus(resp.StatusCode)
	if resp.StatusCode >= 500 {
		kind = errs.Unavailable
	}
	return errs.E(kind, verb(r), subject(r), why)
}
