package httprunner_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow/httprunner"
)

// jobAt is a job for a server.
func jobAt(t *testing.T, server string) workflow.Job {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return workflow.Job{
		ID: "backup/7", Attempt: 2, Group: "projects/p/g", Intent: "backup", Hook: v2.PreUpdate, Revision: 3,
		Spec: v2.WorkflowSpec{
			Client:   v2.WorkflowClient{Host: u.Hostname(), Port: port},
			Temporal: v2.WorkflowStart{Name: "backup", Options: v2.WorkflowOptions{TaskQueue: "q"}},
		},
	}
}

func newRunner(t *testing.T, server string) *httprunner.Runner {
	t.Helper()
	r, err := httprunner.New([]string{server + "/"}, outbound.Policy{}.Check)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status   int
		location string
		body     string
		result   string
		kind     errs.Kind
		text     string // of the error
	}{
		{status: 200, body: "done", result: "done"},
		{status: 204},
		{status: 202, body: "accepted", result: "accepted"},
		{status: 503, body: "later", kind: errs.Unavailable, text: "503 Service Unavailable: later"},
		{status: 429, kind: errs.Unavailable, text: "429 Too Many Requests"},
		{status: 404, body: "no\nsuch\nworkflow", kind: errs.Invalid, text: "404 Not Found: no such workflow"},
		{status: 302, location: "http://169.254.169.254/", kind: errs.Invalid, text: "302 Found"},
		{status: 202, location: "http://other.example.org/runs/1", kind: errs.Invalid, text: "a Location that is no URL on the same server"},
		{status: 202, location: "/runs/%2e%2e/%2e%2e/admin", kind: errs.Invalid, text: "a Location that is no URL on the same server"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var c workflow.Call
			if err := json.NewDecoder(r.Body).Decode(&c); err != nil || r.URL.Path != "/invoke/backup" || r.Header.Get("Idempotency-Key") != "backup/7" ||
				c.Options.ID != "backup/7" || c.Options.TaskQueue != "q" || c.Context.Attempt != 2 || c.Context.Revision != 3 || c.Context.HookType != v2.PreUpdate {
				t.Errorf("request %s %v: %+v, %v", r.URL, r.Header, c, err)
			}
			if tt.location != "" {
				w.Header().Set("Location", tt.location)
			}
			w.WriteHeader(tt.status)
			fmt.Fprint(w, tt.body)
		}))
		got, err := newRunner(t, s.URL).Run(t.Context(), jobAt(t, s.URL))
		switch {
		case tt.text == "" && (err != nil || got != tt.result):
			t.Errorf("%d: %q, %v", tt.status, got, err)
		case tt.text != "" && (!errs.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text)):
			t.Errorf("%d: %v; want %v %q", tt.status, err, tt.kind, tt.text)
		}
		s.Close()
		if _, err := newRunner(t, s.URL).Run(t.Context(), jobAt(t, s.URL)); !errs.Is(err, errs.Unavailable) {
			t.Errorf("a server that is gone: %v", err)
		}
	}
}

// A server that answers 202 with a Location is asked there for the end.
func TestLongWorkflowsAreAskedFor(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.Header().Set("Location", "/runs/1")
			w.WriteHeader(http.StatusAccepted)
		case r.URL.Path != "/runs/1":
			http.NotFound(w, r)
		case asked.Add(1) < 2:
			w.Header().Set("Location", "/runs/1")
			w.WriteHeader(http.StatusAccepted)
		default:
			fmt.Fprint(w, "at last")
		}
	}))
	defer s.Close()
	if got, err := newRunner(t, s.URL).Run(t.Context(), jobAt(t, s.URL)); err != nil || got != "at last" || asked.Load() != 2 {
		t.Errorf("%q, %v after %d questions", got, err, asked.Load())
	}
}

// What the operator does not allow is not called, also when a name resolves to an address that is refused.
func TestWhatIsNotAllowed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server is called") }))
	defer s.Close()
	j := jobAt(t, s.URL)
	r, err := httprunner.New([]string{"http://workflows.example.org/", s.URL + "/other/"}, outbound.Policy{}.Check)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), j); !errs.Is(err, errs.Forbidden) || !errs.Is(r.Admit(j.Spec), errs.Forbidden) {
		t.Errorf("another server: %v", err)
	}
	closed, err := httprunner.New([]string{s.URL + "/"}, func(netip.Addr) error { return errs.New(errs.Forbidden, "a private address") })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := closed.Run(t.Context(), j); !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "a private address") {
		t.Errorf("an address that is refused: %v", err)
	}
	for _, bad := range []string{"ftp://x/", "http://x", "http://u:p@x/"} {
		if _, err := httprunner.New([]string{bad}, nil); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
