package arm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Account sends the requests of one identity about one subscription.
type Account struct {
	manager      *url.URL
	subscription string
	pipeline     runtime.Pipeline // begins with a budgetPolicy
}

// Resource is a resource as Azure has it.
type Resource struct {
	Body []byte // JSON
	Tag  string // entity tag; empty if Azure gives none
}

// ErrChanged reports that a resource is no longer as it was read.
var ErrChanged = errors.New("the resource was changed by others since it was read")

// Get reads a resource or a list of them. path begins after the subscription; version is
// the version of the API. What does not exist is NotFound.
func (a *Account) Get(ctx context.Context, path, version string) (Resource, error) {
	req, err := a.request(ctx, http.MethodGet, path, version)
	if err != nil {
		return Resource{}, err
	}
	resp, err := a.pipeline.Do(req)
	if err != nil {
		return Resource{}, err
	}
	text, err := runtime.Payload(resp)
	if err != nil {
		return Resource{}, err
	}
	var body struct {
		Tag string `json:"etag"`
	}
	_ = json.Unmarshal(text, &body) // a list has no tag
	return Resource{Body: text, Tag: cmp.Or(resp.Header.Get("ETag"), body.Tag)}, nil
}

// Put writes a resource if it is still equal to was, or, if was is nil, if it does not
// exist; otherwise the error is ErrChanged. It returns when Azure has finished, or when ctx
// ends.
func (a *Account) Put(ctx context.Context, path, version string, was *Resource, body []byte) error {
	req, err := a.request(ctx, http.MethodPut, path, version)
	if err != nil {
		return err
	}
	if err := req.SetBody(streaming.NopCloser(bytes.NewReader(body)), "application/json"); err != nil {
		return err
	}
	switch {
	case was == nil:
		req.Raw().Header.Set("If-None-Match", "*")
	case was.Tag != "":
		req.Raw().Header.Set("If-Match", was.Tag)
	}
	return a.finish(ctx, req)
}

// Delete removes a resource. It returns when the resource is gone, or when ctx ends. What
// does not exist is gone.
func (a *Account) Delete(ctx context.Context, path, version string) error {
	req, err := a.request(ctx, http.MethodDelete, path, version)
	if err != nil {
		return err
	}
	if err := a.finish(ctx, req); !errs.Is(err, errs.NotFound) {
		return err
	}
	return nil
}

// request returns a request about a resource. The elements of path are escaped already.
func (a *Account) request(ctx context.Context, method, path, version string) (*policy.Request, error) {
	u := a.manager.JoinPath("subscriptions", url.PathEscape(a.subscription), path)
	u.RawQuery = url.Values{"api-version": {version}}.Encode()
	req, err := runtime.NewRequest(ctx, method, u.String())
	if err == nil {
		req.Raw().Header.Set("Accept", "application/json")
	}
	return req, err
}
