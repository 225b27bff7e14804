package gitlab

import (
	"context"
	"io"
	"mime"
	"net/http"
	"time"

	api "gitlab.com/gitlab-org/api/client-go"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// maxAnswer bounds an answer of the API, in bytes.
const maxAnswer = 8 << 20

// client calls the API of one GitLab with one credential.
type client struct {
	h       *Host
	repo    git.Repo
	op      string // of errors
	address apiAddress
	api     *api.Client
}

// client returns the client of a repository, after finding its API.
func (h *Host) client(ctx context.Context, r git.Repo, op string) (*client, error) {
	if r.Token == "" {
		return nil, errs.E(errs.Unauthorized, op, r.URL, errNoToken)
	}
	at, err := h.addressOf(ctx, r)
	if err != nil {
		return nil, transport.Fail(ctx, r, op, err)
	}
	apiClient, err := h.apiClient(r, at.base, bearerAuth(r.Token))
	if err != nil {
		return nil, transport.Fail(ctx, r, op, err)
	}
	return &client{h: h, repo: r, op: op, address: at, api: apiClient}, nil
}

// apiClient returns a client of the API at an address. It neither retries nor waits: callers of the
// host and the budget do.
func (h *Host) apiClient(r git.Repo, base string, auth api.AuthSource) (*api.Client, error) {
	shared, err := h.clients.Get(r)
	if err != nil {
		return nil, err
	}
	own := *shared
	own.Transport = answerGuard{own.Transport}
	return api.NewAuthSourceClient(auth, api.WithBaseURL(base), api.WithHTTPClient(&own),
		api.WithoutRetries(), api.WithCustomLimiter(noLimiter{}), api.WithUserAgent("emco"))
}

// apiCall is one request, as the client makes it.
type apiCall[T any] func(o api.RequestOptionFunc) (T, *api.Response, error)

// call makes a request once the budget allows it, and reports rate limits to the budget.
func call[T any](ctx context.Context, a *client, cost git.Cost, f apiCall[T]) (T, error) {
	var none T
	if err := a.h.opt.Budget.Spend(ctx, a.repo, cost); err != nil {
		return none, transport.Fail(ctx, a.repo, a.op, err)
	}
	result, resp, err := f(api.WithContext(ctx))
	if resp != nil && resp.Response != nil {
		a.h.observe(a.repo, resp.Response)
	}
	if err != nil {
		return none, transport.Fail(ctx, a.repo, a.op, answerError(resp, err))
	}
	return result, nil
}

// Costs of calls; GitLab counts calls alone.
func readCost() git.Cost  { return git.Cost{Calls: 1, Points: 1} }
func writeCost() git.Cost { return git.Cost{Calls: 1, Points: 1, Content: 1} }

func (h *Host) observe(r git.Repo, resp *http.Response) {
	if s := rateStatusOf(resp, time.Now()); s != (git.RateStatus{}) {
		h.opt.Budget.Observe(r, s)
	}
}

// bearerAuth sends a token of any kind, also of OAuth. Go's client drops this header when a
// redirect leads to another host, unlike GitLab's own header.
type bearerAuth git.Secret

// Init needs nothing.
func (b bearerAuth) Init(context.Context, *api.Client) error { return nil }

// Header returns the credential.
func (b bearerAuth) Header(context.Context) (key, value string, err error) {
	return "Authorization", "Bearer " + git.Secret(b).Reveal(), nil
}

// anonymousAuth sends no credential.
type anonymousAuth struct{}

// Init needs nothing.
func (anonymousAuth) Init(context.Context, *api.Client) error { return nil }

// Header returns a header without meaning, since the client requires one.
func (anonymousAuth) Header(context.Context) (key, value string, err error) {
	return "Accept", "application/json", nil
}

type noLimiter struct{}

// Wait does not.
func (noLimiter) Wait(context.Context) error { return nil }

// answerGuard limits answers, and refuses those of GitLab that are not JSON.
type answerGuard struct{ next http.RoundTripper }

// RoundTrip makes a request.
func (g answerGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 && resp.StatusCode != http.StatusNoContent && !isJSON(resp) {
		_ = resp.Body.Close()
		return nil, errs.E(errs.Unavailable, "", "", errNotAPI)
	}
	resp.Body = limitedBody{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

type limitedBody struct {
	io.Reader
	io.Closer
}

func isJSON(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}
