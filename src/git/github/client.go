package github

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

const maxAnswer = 128 << 20 // bytes; the largest file that GitHub takes has 100 MiB

// client calls the API for one repository.
type client struct {
	h           *Host
	repo        git.Repo
	owner, name string
	base        *url.URL // of the API, ends in a slash
}

var nameRE = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// client returns the client of a repository; Invalid if its URL is not one of GitHub.
func (h *Host) client(r git.Repo) (*client, error) {
	a, err := git.ParseURL(r.URL)
	if err != nil {
		return nil, err
	}
	owner, name, ok := strings.Cut(strings.TrimSuffix(strings.Trim(a.Path, "/"), ".git"), "/")
	if a.Scheme == "file" || !ok || !nameRE.MatchString(owner) || !nameRE.MatchString(name) {
		return nil, errs.E(errs.Invalid, "repository", "URL", errors.New("not that of a GitHub repository: https://host/owner/name"))
	}
	base, err := apiOf(r, a)
	if err != nil {
		return nil, err
	}
	return &client{h: h, repo: r, owner: owner, name: name, base: base}, nil
}

// apiOf returns the URL of the API: that of the repository, else api.github.com for github.com,
// else /api/v3 on the same host.
func apiOf(r git.Repo, a git.Address) (*url.URL, error) {
	host := a.Host
	if a.Port != "" && a.Scheme != "ssh" {
		host += ":" + a.Port
	}
	switch {
	case r.API != "":
		u, err := url.Parse(strings.TrimRight(r.API, "/") + "/")
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, errs.E(errs.Invalid, "interface", "URL", errors.New("not one such as https://host/api/v3, without a user and a query"))
		}
		return u, nil
	case strings.EqualFold(a.Host, "github.com") || strings.EqualFold(a.Host, "ssh.github.com"):
		return &url.URL{Scheme: "https", Host: "api.github.com", Path: "/"}, nil
	case a.Scheme == "http":
		return &url.URL{Scheme: "http", Host: host, Path: "/api/v3/"}, nil
	}
	return &url.URL{Scheme: "https", Host: host, Path: "/api/v3/"}, nil
}

// Costs of calls. The guard of a message spends the push.
var (
	readCost  = git.Cost{Calls: 1, Points: 1}
	writeCost = git.Cost{Calls: 1, Points: 5, Content: 1}
	prepaid   = git.Cost{} // spent before
)

// times is a cost n times.
func times(c git.Cost, n int) git.Cost {
	return git.Cost{Calls: n * c.Calls, Points: n * c.Points, Content: n * c.Content}
}

// plus adds costs.
func plus(a, b git.Cost) git.Cost {
	return git.Cost{Calls: a.Calls + b.Calls, Points: a.Points + b.Points, Content: a.Content + b.Content}
}

// apiCall is one call of the API.
type apiCall func(context.Context, *gh.Client) (*gh.Response, error)

// call spends the cost of a call, makes it, and classifies errors. A refused token of an app is
// renewed, and the call repeated once.
func (d *client) call(ctx context.Context, op string, cost git.Cost, do apiCall) error {
	if err := d.spend(ctx, op, cost); err != nil {
		return err
	}
	token, err := d.token(ctx, "")
	if err != nil {
		return err
	}
	err = d.callOnce(ctx, op, token, do)
	if !errs.Is(err, errs.Unauthorized) || d.repo.App.ID == "" {
		return err
	}
	if err := d.spend(ctx, op, cost); err != nil {
		return err
	}
	if token, err = d.token(ctx, token); err != nil {
		return err
	}
	return d.callOnce(ctx, op, token, do)
}

func (d *client) spend(ctx context.Context, op string, cost git.Cost) error {
	return transport.Fail(ctx, d.repo, op, d.h.opt.Budget.Spend(ctx, d.repo, cost))
}

// callOnce makes one call with a token.
func (d *client) callOnce(ctx context.Context, op string, token git.Secret, do apiCall) error {
	client, err := d.apiClient(token)
	if err != nil {
		return transport.Fail(ctx, d.repo, op, err)
	}
	ctx, cancel := context.WithTimeout(ctx, d.h.opt.Timeout)
	defer cancel()
	resp, err := do(ctx, client)
	if resp == nil && err != nil {
		return transport.Fail(ctx, d.repo, op, err, token)
	}
	err = d.checkAnswer(resp.Response, err)
	for _, known := range []error{errEmpty, errGone} {
		if errors.Is(err, known) {
			return errs.E(errs.Conflict, op, d.repo.URL, known)
		}
	}
	return transport.Fail(ctx, d.repo, op, err, token)
}

// apiClient returns a client that sends a token. It has no state of its own.
func (d *client) apiClient(token git.Secret) (*gh.Client, error) {
	shared, err := d.h.clients.Get(d.repo)
	if err != nil {
		return nil, err
	}
	own := *shared
	own.Transport = tokenTransport{next: shared.Transport, token: token}
	if d.h.testTransport != nil {
		own.Transport = tokenTransport{next: d.h.testTransport, token: token}
	}
	c := gh.NewClient(&own)
	c.BaseURL, c.UserAgent = d.base, "emco"
	return c, nil
}

// tokenTransport adds the token to requests, and limits answers.
type tokenTransport struct {
	next  http.RoundTripper
	token git.Secret
}

// RoundTrip carries out one request.
func (c tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	return resp, nil
}
