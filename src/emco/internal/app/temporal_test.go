package app_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"sync"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

// heldRunner stands for a server whose workflows go on until they are canceled.
type heldRunner struct {
	mu       sync.Mutex
	canceled map[string]bool // whether a workflow was terminated, by intent; guarded by mu
	closed   bool            // guarded by mu
}

func (*heldRunner) Admit(v2.WorkflowSpec) error { return nil }

func (*heldRunner) Run(ctx context.Context, _ workflow.Job) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

func (r *heldRunner) Cancel(_ context.Context, j workflow.Job) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.canceled[j.Intent] = j.Terminate
	return nil
}

func (r *heldRunner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

// The body of a cancellation, as upstream has it, chooses between a request to end and termination.
func TestACancellationMayTerminate(t *testing.T) {
	t.Parallel()
	r := &heldRunner{canceled: map[string]bool{}}
	opened := config.Temporal{}
	s := newStageWith(t, func(c *config.Config) { c.Workflows.Temporal.Address = "temporal.example.org:7233" },
		app.WithTemporal(func(c config.Temporal, admit func(netip.Addr) error, _ *slog.Logger) (app.TemporalRunner, error) {
			opened = c
			return r, admit(netip.MustParseAddr("192.0.2.1"))
		}))
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": {"a"}})
	all := g.path + "/temporal-workflow-intents"
	want := map[string]bool{"asked": false, "ended": true}
	for name, terminate := range want {
		at, body := all+"/"+name, ""
		if terminate {
			body = `{"spec":{"temporalServer":"t:7233","reason":"stuck","terminate":true}}`
		}
		becomes := func(state string) {
			s.eventually(name+" becomes "+state, func() string {
				var st v2.WorkflowStatus
				s.must("read a status", json.Unmarshal([]byte(s.expect(200, "GET", at+"/status", "")), &st))
				return unless(st.State, state)
			})
		}
		s.expect(201, "POST", all, `{"metadata":{"name":"`+name+`"},"spec":{"runner":"temporal","temporal":{"workflowClientName":"index","workflowStartOptions":{"TaskQueue":"q"}}}}`)
		s.expect(202, "POST", at+"/start", "")
		becomes(v2.RunRunning)
		s.expect(202, "POST", at+"/cancel", body)
		becomes(v2.RunCanceled)
	}
	r.mu.Lock()
	for name, terminate := range want {
		if got, canceled := r.canceled[name]; !canceled || got != terminate {
			t.Errorf("%s: canceled %v, terminated %v, want %v", name, canceled, got, terminate)
		}
	}
	r.mu.Unlock()
	s.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed || opened.Namespace != "default" {
		t.Errorf("closed: %v, with %+v", r.closed, opened)
	}
}
