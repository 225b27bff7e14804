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

// asker asks one GitLab in the name of one credential.
type asker struct {
	h    *Host
	repo git.Repo
	op   string // what for, in errors
	at   place
	api  *api.Client
}

// asker returns who asks for a repository, and finds out where its API is.
func (h *Host) asker(ctx context.Context, r git.Repo, op string) (*asker, error) {
	if r.Token == "" {
		return nil, errs.E(errs.Unauthorized, op, r.URL, errNoToken)
	}
	at, err := h.place(ctx, r)
	if err != nil {
		return nil, transport.Fail(ctx, r, op, err)
	}
	client, err := h.client(r, at.base, bearer(r.Token))
	if err != nil {
		return nil, transport.Fail(ctx, r, op, err)
	}
	return &asker{h: h, repo: r, op: op, at: at, api: client}, nil
}

// client returns a client of the API at an address. It neither retries nor waits: the
// callers of the host and the budget do.
func (h *Host) client(r git.Repo, base string, auth api.AuthSource) (*api.Client, error) {
	shared, err := h.clients.Get(r)
	if err != nil {
		return nil, err
	}
	own := *shared
	own.Transport = guard{own.Transport}
	return api.NewAuthSourceClient(auth, api.WithBaseURL(base), api.WithHTTPClient(&own),
		api.WithoutRetries(), api.WithCustomLimiter(noLimiter{}), api.WithUserAgent("emco"))
}

// call is one request, as the client makes it.
type call[T any] func(o api.RequestOptionFunc) (T, *api.Response, error)

// ask makes a request once the budget allows it, and tells the budget what GitLab says of
// the credential.
func ask[T any](ctx context.Context, a *asker, cost git.Cost, f call[T]) (T, error) {
	var none T
	if err := a.h.opt.Budget.Spend(ctx, a.repo, cost); err != nil {
		return none, transport.Fail(ctx, a.repo, a.op, err)
	}
	result, resp, err := f(api.WithContext(ctx))
	if resp != nil && resp.Response != nil {
		a.h.learn(a.repo, resp.Response)
	}
	if err != nil {
		return none, transport.Fail(ctx, a.repo, a.op, explain(resp, err))
	}
	return result, nil
}

// Costs of calls; GitLab counts them without weighing.
func reading() git.Cost { return git.Cost{Calls: 1, Points: 1} }
func writing() git.Cost { return git.Cost{Calls: 1, Points: 1, Content: 1} }

func (h *Host) learn(r git.Repo, resp *http.Response) {
	if s := standing(resp, time.Now()); s != (git.RateStatus{}) {
		h.opt.Budget.Observe(r, s)
	}
}

// bearer sends a token of any kind, OAuth's included. Go's client drops this header by
// itself when it is sent to another host, which it does not with GitLab's own.
type bearer git.Secret

// Init needs nothing.
func (b bearer) Init(context.Context, *api.Client) error { return nil }

// Header returns the credential.
func (b bearer) Header(context.Context) (key, value string, err error) {
	return "Authorization", "Bearer " + git.Secret(b).Reveal(), nil
}

// nobody asks without a credential.
type nobody struct{}

// Init needs nothing.
func (nobody) Init(context.Context, *api.Client) error { return nil }

// Header returns one that says nothing, as the client wants one.
func (nobody) Header(context.Context) (key, value string, err error) {
	return "Accept", "application/json", nil
}

type noLimiter struct{}

// Wait does not.
func (noLimiter) Wait(context.Context) error { return nil }

// guard bounds answers, and lets none pass for GitLab's that is not JSON.
type guard struct{ next http.RoundTripper }

// RoundTrip makes a request.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 && resp.StatusCode != http.StatusNoContent && !isJSON(resp) {
		_ = resp.Body.Close()
		return nil, errs.E(errs.Unavailable, "", "", errStrange)
	}
	resp.Body = bounded{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

type bounded struct {
	io.Reader
	io.Closer
}

func isJSON(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}
