// Package api calls GitHub's REST API for a repository: it spends budgets, gets tokens of apps,
// observes rate limits, and classifies errors.
package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

const maxAnswer = 128 << 20 // bytes; the largest file that GitHub takes has 100 MiB

// Server calls the API. The fields do not change after first use.
type Server struct {
	Clients   *transport.Clients
	Budget    git.Budget        // of credentials
	Timeout   time.Duration     // for one call
	Transport http.RoundTripper // replaces the network, in tests of time; nil

	apps   appTokens
	limits secondaryLimits
}

// Repo calls the API for one repository.
type Repo struct {
	git.Repo
	Owner, Name string

	server *Server
	base   *url.URL // of the API, ends in a slash
}

var nameRE = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// Repo returns a repository; Invalid if its URL is not one of GitHub.
func (s *Server) Repo(r git.Repo) (*Repo, error) {
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
	return &Repo{Repo: r, Owner: owner, Name: name, server: s, base: base}, nil
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
	ReadCost  = git.Cost{Calls: 1, Points: 1}
	WriteCost = git.Cost{Calls: 1, Points: 5, Content: 1}
	Prepaid   = git.Cost{} // spent before
)

// Times is a cost n times.
func Times(c git.Cost, n int) git.Cost {
	return git.Cost{Calls: n * c.Calls, Points: n * c.Points, Content: n * c.Content}
}

// Plus adds costs.
func Plus(a, b git.Cost) git.Cost {
	return git.Cost{Calls: a.Calls + b.Calls, Points: a.Points + b.Points, Content: a.Content + b.Content}
}

// Request is one call of the API.
type Request func(context.Context, *gh.Client) (*gh.Response, error)

// Call spends the cost of a call, makes it, and classifies errors. A refused token of an app is
// renewed, and the call repeated once.
func (r *Repo) Call(ctx context.Context, op string, cost git.Cost, do Request) error {
	if err := r.Spend(ctx, op, cost); err != nil {
		return err
	}
	token, err := r.token(ctx, "")
	if err != nil {
		return err
	}
	err = r.callOnce(ctx, op, token, do)
	if !errs.Is(err, errs.Unauthorized) || r.Repo.App.ID == "" {
		return err
	}
	if err := r.Spend(ctx, op, cost); err != nil {
		return err
	}
	if token, err = r.token(ctx, token); err != nil {
		return err
	}
	return r.callOnce(ctx, op, token, do)
}

// Spend pays a cost before its calls are made.
func (r *Repo) Spend(ctx context.Context, op string, cost git.Cost) error {
	return transport.Fail(ctx, r.Repo, op, r.server.Budget.Spend(ctx, r.Repo, cost))
}

// callOnce makes one call with a token.
func (r *Repo) callOnce(ctx context.Context, op string, token git.Secret, do Request) error {
	client, err := r.apiClient(token)
	if err != nil {
		return transport.Fail(ctx, r.Repo, op, err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.server.Timeout)
	defer cancel()
	resp, err := do(ctx, client)
	if resp == nil && err != nil {
		return transport.Fail(ctx, r.Repo, op, err, token)
	}
	err = r.checkAnswer(resp.Response, err)
	for _, known := range []error{ErrEmpty, ErrGone} {
		if errors.Is(err, known) {
			return errs.E(errs.Conflict, op, r.Repo.URL, known)
		}
	}
	return transport.Fail(ctx, r.Repo, op, err, token)
}

// apiClient returns a client that sends a token. It has no state of its own.
func (r *Repo) apiClient(token git.Secret) (*gh.Client, error) {
	shared, err := r.server.Clients.Get(r.Repo)
	if err != nil {
		return nil, err
	}
	own := *shared
	own.Transport = tokenTransport{next: shared.Transport, token: token}
	if r.server.Transport != nil {
		own.Transport = tokenTransport{next: r.server.Transport, token: token}
	}
	c := gh.NewClient(&own)
	c.BaseURL, c.UserAgent = r.base, "emco"
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
