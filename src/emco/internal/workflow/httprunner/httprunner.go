// Package httprunner runs workflows by HTTP requests to servers that the operator allows.
//
//	POST http://HOST:PORT/invoke/NAME   Idempotency-Key: ID of the run
//	200…: done    202 with Location: it is asked there until it answers otherwise    408, 425, 429, 5…: again later
package httprunner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

const (
	maxAnswer   = 64 << 10 // bytes that are read
	firstPoll   = time.Second
	longestPoll = 30 * time.Second
)

// Runner calls servers. It is safe for concurrent use.
type Runner struct {
	allowed outbound.Prefixes
	client  *http.Client
}

// New returns a runner that calls URLs below the allowed prefixes whose addresses admit returns no error for.
func New(allowed []string, admit func(netip.Addr) error) (*Runner, error) {
	prefixes, err := outbound.ReadPrefixes(allowed)
	if err != nil {
		return nil, err
	}
	return &Runner{allowed: prefixes, client: outbound.Client(admit)}, nil
}

// Admit returns Forbidden for a server that the operator does not allow.
func (r *Runner) Admit(s v2.WorkflowSpec) error {
	u, err := outbound.ReadURL(s.URL())
	if err != nil {
		return errs.New(errs.Invalid, fmt.Sprintf("URL of a workflow: %s", err))
	}
	return r.admit(u)
}

func (r *Runner) admit(u *url.URL) error {
	if r.allowed.Allow(u) {
		return nil
	}
	return errs.New(errs.Forbidden, fmt.Sprintf("workflows at %s are not allowed; the operator allows them with workflows.endpoints", outbound.Server(u)+u.Path))
}

// Run sends the job, and waits for its end.
func (r *Runner) Run(ctx context.Context, j workflow.Job) (string, error) {
	if err := r.Admit(j.Spec); err != nil {
		return "", err
	}
	body, err := json.Marshal(j.Call())
	if err != nil {
		return "", errs.E(errs.Internal, "encode", j.ID, err)
	}
	at, err := url.Parse(j.Spec.URL())
	if err != nil {
		return "", errs.New(errs.Invalid, "URL of a workflow: "+err.Error())
	}
	a, err := r.ask(ctx, http.MethodPost, at, body, j)
	for pause := firstPoll; err == nil && a.next != nil; pause = min(2*pause, longestPoll) {
		select {
		case <-ctx.Done():
			return "", errs.E(errs.Unavailable, "wait for", at.Path, context.Cause(ctx))
		case <-time.After(max(pause, a.after)):
		}
		a, err = r.ask(ctx, http.MethodGet, a.next, nil, j)
	}
	return a.text, err
}

// Cancel does nothing: a canceled request ends with its connection.
func (r *Runner) Cancel(context.Context, workflow.Job) error { return nil }

// hookResponse is what a server answered.
type hookResponse struct {
	text  string
	next  *url.URL      // where to ask for the end; nil: this is it
	after time.Duration // before that
}

func (r *Runner) ask(ctx context.Context, method string, at *url.URL, body []byte, j workflow.Job) (out hookResponse, err error) {
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return out, errs.New(errs.Invalid, "URL of a workflow: "+err.Error())
	}
	req.Header.Set("Accept", "application/json, text/plain;q=0.5")
	req.Header.Set("Idempotency-Key", j.ID)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, text, err := outbound.Exchange(r.client, req, maxAnswer)
	if err != nil {
		return out, err
	}
	return r.read(at, resp, text)
}

// read distinguishes ends, answers that ask to wait, and failures.
func (r *Runner) read(at *url.URL, resp *http.Response, text []byte) (out hookResponse, err error) {
	out.text = string(text[:min(len(text), maxAnswer)])
	switch code := resp.StatusCode; {
	case code == http.StatusAccepted && resp.Header.Get("Location") != "":
		next, err := at.Parse(resp.Header.Get("Location"))
		if err == nil {
			next, err = outbound.ReadURL(next.String())
		}
		if err != nil || outbound.Server(next) != outbound.Server(at) {
			return out, errs.New(errs.Invalid, fmt.Sprintf("%s answers 202 with a Location that is no URL on the same server", at))
		}
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // without a number, the pauses grow
		out.next, out.after = next, min(time.Duration(max(seconds, 0))*time.Second, longestPoll)
		return out, r.admit(next)
	case code >= 200 && code < 300:
		return out, nil
	}
	return out, errs.New(errs.Invalid, fmt.Sprintf("%s answers %s%s", at, resp.Status, outbound.Shown(text)))
}
