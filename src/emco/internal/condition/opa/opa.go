// Package opa asks servers of Open Policy Agent, which the operator allows, whether an event meets the condition of a
// policy intent.
//
//	POST URL/v1/data/RULE {"input": {"event": …, "group": …}}   200 {"result": true}
package opa

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/condition"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// Limits of one question.
const (
	timeout     = 3 * time.Second // of one attempt
	maxAttempts = 2
	retryPause  = 200 * time.Millisecond // between them
	maxAnswer   = 64 << 10
)

// Engine asks servers. After the calls of SetAccess, it is safe for concurrent use.
type Engine struct {
	allowed outbound.Prefixes
	admit   func(netip.Addr) error
	clients map[string]*http.Client // by scheme, host and port
	others  *http.Client            // of servers without Access
}

// New returns an engine of rules whose URLs begin with one of the allowed prefixes, such as
// "http://opa.example.org:8181/v1/data/shop/", and whose addresses admit returns no error for.
func New(allowed []string, admit func(netip.Addr) error) (*Engine, error) {
	prefixes, err := outbound.ReadPrefixes(allowed)
	if err != nil {
		return nil, err
	}
	return &Engine{allowed: prefixes, admit: admit, clients: map[string]*http.Client{}, others: Access{}.client(admit)}, nil
}

// SetAccess sets the access to the server of a URL. Call it before the first question. The error is Invalid.
func (e *Engine) SetAccess(to string, a Access) error {
	u, err := outbound.ReadURL(to)
	if err != nil {
		return errs.New(errs.Invalid, err.Error())
	}
	at := outbound.Server(u)
	switch {
	case !slices.ContainsFunc(e.allowed, func(p *url.URL) bool { return outbound.Server(p) == at }):
		return errs.New(errs.Invalid, "it is the server of none of the allowed URLs")
	case u.Scheme != "https" && (a.TLS != nil || !outbound.Loopback(u.Hostname())):
		return errs.New(errs.Invalid, "it must begin with https://: certificates need that, and tokens on other machines")
	case e.clients[at] != nil:
		return errs.New(errs.Invalid, "the server is listed twice")
	}
	e.clients[at] = a.client(e.admit)
	return nil
}

// Admit returns Forbidden for a rule that the operator does not allow.
func (e *Engine) Admit(c v2.PolicyCondition) error {
	u, err := outbound.ReadURL(c.RuleURL())
	if err != nil {
		return errs.New(errs.Invalid, fmt.Sprintf("URL of a rule: %s", err))
	}
	if e.allowed.Allow(u) {
		return nil
	}
	return errs.New(errs.Forbidden, fmt.Sprintf("the rule %s is not allowed; the operator allows OPA servers with outbound.engines", outbound.Server(u)+u.Path))
}

// Holds asks whether the rule is true. The error is Unavailable if the server does not answer, and otherwise final.
func (e *Engine) Holds(ctx context.Context, c v2.PolicyCondition, in condition.Input) (bool, error) {
	if err := e.Admit(c); err != nil {
		return false, err
	}
	question, err := json.Marshal(map[string]any{"input": map[string]any{"event": in.Event, "group": in.Group}})
	if err != nil {
		return false, errs.E(errs.Internal, "encode", "the input of "+c.RuleURL(), err)
	}
	for attempt := 1; ; attempt++ {
		holds, err := e.ask(ctx, c.RuleURL(), question)
		if err == nil || !errs.Is(err, errs.Unavailable) || attempt == maxAttempts {
			return holds, err
		}
		if pause.For(ctx, retryPause) != nil {
			return false, err
		}
	}
}

func (e *Engine) ask(ctx context.Context, rule string, question []byte) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rule, bytes.NewReader(question))
	if err != nil {
		return false, errs.New(errs.Invalid, "URL of a rule: "+err.Error())
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	resp, body, err := outbound.Exchange(cmp.Or(e.clients[outbound.Server(req.URL)], e.others), req, maxAnswer)
	switch {
	case err != nil:
		return false, err
	case resp.StatusCode == http.StatusUnauthorized:
		return false, errs.New(errs.Invalid, fmt.Sprintf("%s: the server answers %s, not 200%s; the operator gives it a token with outbound.engineAccess", rule, resp.Status, outbound.Shown(body)))
	case resp.StatusCode != http.StatusOK:
		return false, errs.New(errs.Invalid, fmt.Sprintf("%s: the server answers %s, not 200%s", rule, resp.Status, outbound.Shown(body)))
	case len(body) > maxAnswer:
		return false, errs.New(errs.Invalid, fmt.Sprintf("%s: the answer has more than %d bytes", rule, maxAnswer))
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return false, errs.New(errs.Invalid, fmt.Sprintf("%s: the answer is no JSON object%s", rule, outbound.Shown(body)))
	}
	switch string(answer.Result) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "":
		return false, errs.New(errs.Invalid, rule+": the server has no such rule, or it is undefined for this event; give the rule a default")
	}
	// The value is not shown: authors of intents may not read what the server knows.
	return false, errs.New(errs.Invalid, fmt.Sprintf("%s: the rule is %s, neither true nor false", rule, typeOf(answer.Result)))
}

// typeOf names the type of a value that is neither true nor false.
func typeOf(value json.RawMessage) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 'n':
		return "null"
	}
	return "a number"
}
