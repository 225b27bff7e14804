package opa_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/condition"
	"github.com/emco-orchestrator/emco/src/emco/internal/condition/opa"
)

var input = condition.Input{
	Event: map[string]any{"id": "errors", "agent": "watcher", "data": map[string]any{"rate": 0.9}},
	Group: map[string]string{"project": "shop", "compositeApp": "till", "version": "v1", "name": "autumn"},
}

// The answers of a server, by rule. The end-to-end tests ask a real one.
func TestAnswersOfRules(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		var q struct {
			Input struct {
				Event struct {
					ID, Agent string
					Data      struct{ Rate float64 }
				}
				Group struct{ Project, CompositeApp, Version, Name string }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Method != http.MethodPost || q.Input.Event.ID != "errors" || q.Input.Event.Agent != "watcher" ||
			q.Input.Event.Data.Rate != 0.9 || q.Input.Group.Project != "shop" || q.Input.Group.CompositeApp != "till" || q.Input.Group.Name != "autumn" {
			t.Errorf("%s %s: %+v %v", r.Method, r.URL, q, err)
		}
		switch strings.TrimPrefix(r.URL.Path, "/v1/data/shop/") {
		case "yes":
			_, _ = w.Write([]byte(`{"decision_id":"1","result": true}`))
		case "no":
			_, _ = w.Write([]byte(`{"result":false}`))
		case "undefined":
			_, _ = w.Write([]byte(`{}`))
		case "object":
			_, _ = w.Write([]byte(`{"result":{"halt":true}}`))
		case "null":
			_, _ = w.Write([]byte(`{"result":null}`))
		case "number":
			_, _ = w.Write([]byte(`{"result": 4711}`))
		case "list":
			_, _ = w.Write([]byte(`{"result":["planted"]}`))
		case "text":
			_, _ = w.Write([]byte(`hello`))
		case "long":
			_, _ = w.Write([]byte(`{"result":true,"x":"` + strings.Repeat("x", 70_000) + `"}`))
		case "once":
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte(`{"result":true}`))
		case "busy":
			w.WriteHeader(http.StatusTooManyRequests)
		case "closed":
			w.WriteHeader(http.StatusUnauthorized)
		case "away":
			http.Redirect(w, r, "/v1/data/shop/yes", http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(server.Close)
	e, err := opa.New([]string{server.URL + "/v1/data/shop/"}, outbound.Policy{}.Check)
	if err != nil {
		t.Fatal(err)
	}
	for rule, want := range map[string]struct {
		holds bool
		kind  errs.Kind
		text  string // of the error
		asked int32
	}{
		"shop/yes":       {holds: true, asked: 1},
		"shop/no":        {asked: 1},
		"shop/undefined": {kind: errs.Invalid, text: "has no such rule, or it is undefined for this event", asked: 1},
		"shop/object":    {kind: errs.Invalid, text: "the rule is an object, neither true nor false", asked: 1},
		"shop/null":      {kind: errs.Invalid, text: "the rule is null, neither", asked: 1},
		"shop/number":    {kind: errs.Invalid, text: "the rule is a number, neither", asked: 1},
		"shop/list":      {kind: errs.Invalid, text: "the rule is a list, neither", asked: 1},
		"shop/text":      {kind: errs.Invalid, text: "no JSON object: hello", asked: 1},
		"shop/long":      {kind: errs.Invalid, text: "more than 65536 bytes", asked: 1},
		"shop/once":      {holds: true, asked: 2},
		"shop/busy":      {kind: errs.Unavailable, text: "429", asked: 2},
		"shop/closed":    {kind: errs.Invalid, text: "401 Unauthorized, not 200", asked: 1},
		"shop/away":      {kind: errs.Invalid, text: "307", asked: 1},
		"bank/yes":       {kind: errs.Forbidden, text: "the operator allows OPA servers with outbound.engines"},
		"shop":           {kind: errs.Forbidden, text: "/v1/data/shop is not allowed"},
	} {
		asked.Store(0)
		got, err := e.Holds(t.Context(), v2.PolicyCondition{EngineURL: server.URL, PolicyName: rule}, input)
		switch {
		case got != want.holds, want.text == "" && err != nil, asked.Load() != want.asked:
			t.Errorf("%s: %t, %v, asked %d times", rule, got, err, asked.Load())
		case want.text != "" && (!errs.Is(err, want.kind) || !strings.Contains(err.Error(), want.text)):
			t.Errorf("%s: %v; want %v %q", rule, err, want.kind, want.text)
		}
	}
	server.Close()
	if _, err := e.Holds(t.Context(), v2.PolicyCondition{EngineURL: server.URL, PolicyName: "shop/yes"}, input); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a server that is gone: %v", err)
	}
}

// A server that is allowed by its name may not be an address that must not be dialled.
func TestServersAtForbiddenAddresses(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server is asked") }))
	t.Cleanup(server.Close)
	e, err := opa.New([]string{server.URL + "/"}, outbound.Policy{DenyPrivate: true}.Check)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Holds(t.Context(), v2.PolicyCondition{EngineURL: server.URL, PolicyName: "shop/yes"}, input); !errs.Is(err, errs.Forbidden) {
		t.Errorf("%v, want Forbidden", err)
	}
	if _, err := opa.New([]string{server.URL}, outbound.Policy{}.Check); !errs.Is(err, errs.Invalid) {
		t.Errorf("a prefix without a slash: %v", err)
	}
	none, err := opa.New(nil, outbound.Policy{}.Check)
	if err != nil || !errs.Is(none.Admit(v2.PolicyCondition{EngineURL: server.URL, PolicyName: "shop/yes"}), errs.Forbidden) {
		t.Errorf("without a setting a server is allowed: %v", err)
	}
}
