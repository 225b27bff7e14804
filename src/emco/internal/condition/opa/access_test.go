package opa_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/condition/opa"
)

const token = "planted-token"

// closedServer answers whoever has the token and a client certificate. It repeats the credential in its answer, as a careless server does.
func closedServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get("Authorization")
		switch {
		case given != "Bearer "+token:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("who is " + given))
		case r.URL.Path == "/v1/data/shop/repeats":
			_, _ = w.Write([]byte(`{"result":"` + given + `"}`))
		case r.URL.Path == "/v1/data/shop/fails":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(given))
		default:
			_, _ = w.Write([]byte(`{"result":true}`))
		}
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// trusting returns the TLS of a client that trusts a server, and shows a certificate.
func trusting(server *httptest.Server) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: server.TLS.Certificates}
}

func says(text string) func() (string, error) { return func() (string, error) { return text, nil } }

func TestServersThatWantCredentials(t *testing.T) {
	t.Parallel()
	server := closedServer(t)
	secure := trusting(server)
	anonymous := secure.Clone()
	anonymous.Certificates = nil
	for name, tt := range map[string]struct {
		rule   string
		access *opa.Access
		holds  bool
		kind   errs.Kind
		text   string
	}{
		"all of it":         {rule: "yes", access: &opa.Access{TLS: secure, Token: says(token)}, holds: true},
		"nothing":           {rule: "yes", kind: errs.Unavailable, text: "certificate signed by unknown authority"},
		"no token":          {rule: "yes", access: &opa.Access{TLS: secure}, kind: errs.Invalid, text: "401 Unauthorized, not 200: who is; the operator"},
		"another token":     {rule: "yes", access: &opa.Access{TLS: secure, Token: says("planted-other")}, kind: errs.Invalid, text: "who is Bearer ***; the operator gives it a token with outbound.engineAccess"},
		"no authority":      {rule: "yes", access: &opa.Access{Token: says(token)}, kind: errs.Unavailable, text: "certificate signed by unknown authority"},
		"no certificate":    {rule: "yes", access: &opa.Access{TLS: anonymous, Token: says(token)}, kind: errs.Unavailable, text: "certificate required"},
		"a token that left": {rule: "yes", access: &opa.Access{TLS: secure, Token: func() (string, error) { return "", errors.New("open /planted") }}, kind: errs.Unavailable, text: "its token cannot be read"},
		"a rule with it":    {rule: "repeats", access: &opa.Access{TLS: secure, Token: says(token)}, kind: errs.Invalid, text: "the rule is a text, neither true nor false"},
		"an error with it":  {rule: "fails", access: &opa.Access{TLS: secure, Token: says(token)}, kind: errs.Unavailable, text: "500 Internal Server Error: Bearer ***"},
	} {
		e, err := opa.New([]string{server.URL + "/v1/data/shop/"}, outbound.Policy{}.Check)
		if err == nil && tt.access != nil {
			err = e.SetAccess(server.URL, *tt.access)
		}
		if err != nil {
			t.Fatal(err)
		}
		holds, err := e.Holds(t.Context(), v2.PolicyCondition{EngineURL: server.URL, PolicyName: "shop/" + tt.rule}, input)
		switch {
		case holds != tt.holds, (err == nil) != tt.holds:
			t.Errorf("%s: %t, %v", name, holds, err)
		case err != nil && (!errs.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "planted")):
			t.Errorf("%s: %v; want %v %q without secrets", name, err, tt.kind, tt.text)
		}
	}
}

// A token and a certificate are for one server: another one that the operator allows does not see them.
func TestCredentialsAreForOneServer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			t.Error("the other server sees a token")
		}
		_, _ = w.Write([]byte(`{"result":true}`))
	}))
	t.Cleanup(other.Close)
	server := closedServer(t)
	e, err := opa.New([]string{server.URL + "/", other.URL + "/"}, outbound.Policy{}.Check)
	if err == nil {
		err = e.SetAccess(server.URL, opa.Access{TLS: trusting(server), Token: says(token)})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{server.URL, other.URL} {
		if holds, err := e.Holds(t.Context(), v2.PolicyCondition{EngineURL: at, PolicyName: "shop/yes"}, input); !holds || err != nil {
			t.Errorf("%s: %t, %v", at, holds, err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("the other server was asked %d times", asked.Load())
	}
}

func TestAccessThatIsRefused(t *testing.T) {
	t.Parallel()
	e, err := opa.New([]string{"https://opa.example.org/v1/data/shop/", "http://opa.example.org:8181/", "http://127.0.0.1:8181/"}, outbound.Policy{}.Check)
	if err != nil {
		t.Fatal(err)
	}
	secure := opa.Access{TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Token: says(token)}
	for _, tt := range []struct {
		url, want string
		access    opa.Access
	}{
		{"https://opa.example.org:443/", "", secure},
		{"https://opa.example.org", "listed twice", secure},
		{"https://other.example.org", "none of the allowed URLs", secure},
		{"opa.example.org", "must begin with", secure},
		{"http://opa.example.org:8181", "must begin with https://", opa.Access{Token: says(token)}},
		{"http://127.0.0.1:8181", "must begin with https://", secure},
		{"http://127.0.0.1:8181", "", opa.Access{Token: says(token)}},
	} {
		err := e.SetAccess(tt.url, tt.access)
		if (err == nil) != (tt.want == "") || err != nil && (!errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.url, err, tt.want)
		}
	}
}

// A token that is a word of JSON changes no answer of a rule. It is still removed from texts, also from an answer that is JSON and
// not that of a rule.
func TestATokenThatIsAWordOfJSONChangesNoAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/data/shop/text":
			_, _ = w.Write([]byte(`"you are true"`))
		case "/v1/data/shop/fails":
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte(`{"result":true}`))
		case "/v1/data/shop/refuses":
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"code":"true"}`))
		default:
			_, _ = w.Write([]byte(`{"result":true,"decision_id":"true"}`))
		}
	}))
	t.Cleanup(server.Close)
	e, err := opa.New([]string{server.URL + "/"}, outbound.Policy{}.Check)
	if err == nil {
		err = e.SetAccess(server.URL, opa.Access{Token: says("true")})
	}
	if err != nil {
		t.Fatal(err)
	}
	ask := func(rule string) (bool, error) {
		return e.Holds(t.Context(), v2.PolicyCondition{EngineURL: server.URL, PolicyName: "shop/" + rule}, input)
	}
	if holds, err := ask("yes"); !holds || err != nil {
		t.Errorf("%t, %v; want true", holds, err)
	}
	for rule, want := range map[string]string{"text": `"you are ***"`, "fails": `{"result":***}`, "refuses": `{"code":"***"}`} {
		if holds, err := ask(rule); holds || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %t, %v; want %s", rule, holds, err, want)
		}
	}
}
