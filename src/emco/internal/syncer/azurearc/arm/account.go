package arm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 20

// Account asks for one identity about one subscription.
type Account struct {
	client       *Client
	subscription string
	tokens       azcore.TokenCredential
	scope        string
	budget       *budget
}

// Resource is a resource as Azure has it.
type Resource struct {
	Body []byte // JSON
	Tag  string // entity tag; empty if Azure gives none
}

// ErrChanged says that a resource is not any more as it was read.
var ErrChanged = errors.New("the resource was changed by somebody else meanwhile")

// Get reads a resource or a list of them. path begins after the subscription; version is
// that of the interface. What is not there is NotFound.
func (a *Account) Get(ctx context.Context, path, version string) (Resource, error) {
	r, err := a.send(ctx, call{method: http.MethodGet, url: a.url(path, version)})
	if err != nil {
		return Resource{}, err
	}
	return Resource{Body: r.body, Tag: r.tag()}, nil
}

// Put writes a resource that is still as it was read, with the tag of then; without a tag,
// of a resource that is not there. It returns when Azure is done, or when ctx ends. If
// somebody else was faster, the error is ErrChanged.
func (a *Account) Put(ctx context.Context, path, version string, was *Resource, body []byte) error {
	c := call{method: http.MethodPut, url: a.url(path, version), body: body, header: http.Header{}}
	switch {
	case was == nil:
		c.header.Set("If-None-Match", "*")
	case was.Tag != "":
		c.header.Set("If-Match", was.Tag)
	}
	r, err := a.send(ctx, c)
	if err != nil {
		return err
	}
	return a.await(ctx, r)
}

// Delete removes a resource. It returns when it is gone, or when ctx ends. What is not
// there is gone.
func (a *Account) Delete(ctx context.Context, path, version string) error {
	r, err := a.send(ctx, call{method: http.MethodDelete, url: a.url(path, version)})
	if errs.Is(err, errs.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return a.await(ctx, r)
}

// url returns the address of a resource. The elements of path are escaped already.
func (a *Account) url(path, version string) *url.URL {
	u := a.client.manager.JoinPath("subscriptions", url.PathEscape(a.subscription), path)
	u.RawQuery = url.Values{"api-version": {version}}.Encode()
	return u
}

// call is one request.
type call struct {
	method string
	url    *url.URL
	header http.Header
	body   []byte
}

func (c call) write() bool { return c.method != http.MethodGet }

// noise is what the addresses of all resources have in common.
var noise = regexp.MustCompile(`^/subscriptions/[^/]+/resourceGroups/|providers/[^/]+/`)

// subject names the resource of a call: "edge/connectedClusters/site-1/fluxConfigurations/config-7".
func (c call) subject() string { return noise.ReplaceAllString(c.url.Path, "") }

// answer is what came back; its body is read.
type answer struct {
	call   call
	status int
	header http.Header
	body   []byte
}

func (r answer) tag() string {
	var body struct {
		Tag string `json:"etag"`
	}
	_ = json.Unmarshal(r.body, &body)
	return cmp.Or(r.header.Get("ETag"), body.Tag)
}

// send sends a call within the account's budget. Answers above 299 are errors.
func (a *Account) send(ctx context.Context, c call) (answer, error) {
	if wait := a.budget.take(c.write()); wait > 0 {
		return answer{}, errs.Throttle(c.verb(), c.subject(), wait, errors.New("the share of Azure's request limit is used up, or Azure cannot be reached"))
	}
	token, err := a.tokens.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{a.scope}})
	if err != nil {
		return answer{}, a.lost(ctx, unauthenticated(err))
	}
	r, err := a.exchange(ctx, c, token.Token)
	if err != nil {
		return answer{}, a.lost(ctx, errs.E(errs.Unavailable, c.verb(), c.subject(), brief(err)))
	}
	a.budget.heed(r.status, r.header)
	if r.status > 299 {
		return r, refusal(r)
	}
	return r, nil
}

// lost has the account rest if Azure could not be reached, unless we gave up ourselves.
func (a *Account) lost(ctx context.Context, err error) error {
	if errs.Is(err, errs.Unavailable) && ctx.Err() == nil {
		a.budget.unreachable()
	}
	return err
}

func (c call) verb() string { return strings.ToLower(c.method) }

func (a *Account) exchange(ctx context.Context, c call, token string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, c.url.String(), bytes.NewReader(c.body))
	if err != nil {
		return answer{}, err
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	if c.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.client.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer{call: c, status: resp.StatusCode, header: resp.Header, body: body}, err
}

// brief leaves addresses out of what a transport says.
func brief(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// fault is how Azure says what is wrong.
type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// maxWords bounds what is shown of Azure's words.
const maxWords = 300

func (f fault) String() string {
	text := strings.Join(strings.Fields(f.Code+": "+f.Message), " ")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return strings.Trim(text, ": ")
}

// refusal is the error of an answer above 299.
func refusal(r answer) error {
	var body struct{ Error fault }
	_ = json.Unmarshal(r.body, &body)
	why := fmt.Errorf("answered with %d %s", r.status, cmp.Or(body.Error.String(), http.StatusText(r.status)))
	verb, subject := r.call.verb(), r.call.subject()
	switch r.status {
	case http.StatusPreconditionFailed:
		return errs.E(errs.Conflict, verb, subject, ErrChanged)
	case http.StatusTooManyRequests:
		return errs.Throttle(verb, subject, retryAfter(r.header), why)
	}
	kind := errs.FromStatus(r.status)
	if r.status >= 500 {
		kind = errs.Unavailable
	}
	return errs.E(kind, verb, subject, why)
}
