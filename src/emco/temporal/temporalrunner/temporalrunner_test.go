package temporalrunner_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
	"github.com/emco-orchestrator/emco/src/emco/temporal/temporalrunner"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func anywhere(netip.Addr) error { return nil }

// open returns a runner as a start of the program makes it.
func open(t *testing.T, c config.Temporal) *temporalrunner.Runner {
	t.Helper()
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	c.TaskQueues = []string{"shop-*"}
	r, err := temporalrunner.New(c, anywhere, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// job returns a run with an id of its own.
func job(t *testing.T, name string) workflow.Job {
	s := v2.WorkflowSpec{Runner: "temporal", Temporal: v2.WorkflowStart{
		Name: name, Options: v2.WorkflowOptions{TaskQueue: queue}, Params: map[string]v2.PatchValue{"activityParams": v2.PatchValue(`{"dump":{"database":"till"}}`)},
	}}
	return workflow.Job{
		ID: fmt.Sprintf("%s/%d", t.Name(), time.Now().UnixNano()), Attempt: 1, Group: "projects/shop", Intent: "10-backup", Hook: "pre-update",
		Revision: 3, Deadline: time.Now().Add(time.Minute), Spec: s,
	}
}

// onServers runs a test on each server.
func onServers(t *testing.T, test func(t *testing.T, address string)) {
	t.Helper()
	for name, address := range servers(t) {
		t.Run(name, func(t *testing.T) { test(t, address) })
	}
}

// answer is what a call of Run returned.
type answer struct {
	result string
	err    error
}

// running calls Run, and returns when Temporal knows the workflow.
func running(t *testing.T, ctx context.Context, r *temporalrunner.Runner, people client.Client, j workflow.Job) <-chan answer {
	t.Helper()
	out := make(chan answer, 1)
	go func() {
		result, err := r.Run(ctx, j)
		out <- answer{result, err}
	}()
	for {
		if _, err := people.DescribeWorkflowExecution(t.Context(), j.ID, ""); err == nil {
			return out
		}
		select {
		case a := <-out:
			t.Fatalf("it ended before it was seen: %+v", a)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, address string) {
		r := open(t, config.Temporal{Address: address})
		for name, want := range map[string]answer{
			echo:   {result: `{"activityParams":{"dump":{"database":"till"}}}`},
			say:    {result: "done"},
			silent: {},
		} {
			if result, err := r.Run(t.Context(), job(t, name)); err != nil || result != want.result {
				t.Errorf("%s: %q, %v, want %q", name, result, err, want.result)
			}
		}
		j := job(t, fail)
		for range 2 { // asked again, it reports the same end and starts nothing
			if _, err := r.Run(t.Context(), j); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "it failed: no space left") {
				t.Errorf("%v, want a final failure with the workflow's reason", err)
			}
		}
	})
}

// Whoever asks for a run, and how often, gets the answer of one execution.
func TestARunIsOneExecution(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, address string) {
		people := connect(t, address)
		j := job(t, hold)
		first, second := open(t, config.Temporal{Address: address}), open(t, config.Temporal{Address: address})
		dead, kill := context.WithCancel(t.Context())
		lost := running(t, dead, first, people, j)
		kill()
		if a := <-lost; !errs.Is(a.err, errs.Unavailable) {
			t.Fatalf("a caller that stops gets %+v", a)
		}
		found := running(t, t.Context(), second, people, j)
		beside := running(t, t.Context(), open(t, config.Temporal{Address: address}), people, j)
		if err := people.SignalWorkflow(t.Context(), j.ID, "", "go", nil); err != nil {
			t.Fatal(err)
		}
		a, b := <-found, <-beside
		later, err := second.Run(t.Context(), j)
		if a.err != nil || b.err != nil || err != nil || a.result == "" || b.result != a.result || later != a.result {
			t.Errorf("three calls got %+v, %+v and %q, %v; want the id of one execution", a, b, later, err)
		}
	})
}

func TestCancelEndsAWorkflow(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, address string) {
		r, people, j := open(t, config.Temporal{Address: address}), connect(t, address), job(t, hold)
		end := running(t, t.Context(), r, people, j)
		if err := r.Cancel(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if a := <-end; !errs.Is(a.err, errs.Invalid) || !strings.Contains(a.err.Error(), "canceled in Temporal") {
			t.Errorf("%+v, want that it was canceled", a)
		}
		for _, over := range []workflow.Job{j, job(t, hold)} {
			if err := r.Cancel(t.Context(), over); err != nil {
				t.Errorf("cancel of a workflow that does not run: %v", err)
			}
		}
	})
}

// A workflow that takes no notice of a cancellation can be terminated, by users of EMCO and of Temporal.
func TestTerminateEndsAWorkflow(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, address string) {
		r, people := open(t, config.Temporal{Address: address}), connect(t, address)
		for name, terminate := range map[string]func(workflow.Job) error{
			"of EMCO":     func(j workflow.Job) error { j.Terminate = true; return r.Cancel(t.Context(), j) },
			"of Temporal": func(j workflow.Job) error { return people.TerminateWorkflow(t.Context(), j.ID, "", "test") },
		} {
			j := job(t, stubborn)
			end := running(t, t.Context(), r, people, j)
			if err := r.Cancel(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			for range 2 { // what is over needs no end
				if err := terminate(j); err != nil && name == "of EMCO" {
					t.Fatalf("users %s: %v", name, err)
				}
			}
			if a := <-end; !errs.Is(a.err, errs.Invalid) || !strings.Contains(a.err.Error(), "terminated in Temporal") {
				t.Errorf("users %s: %+v, want that it was terminated", name, a)
			}
		}
	})
}

// Temporal tries a workflow again as its intent sets, and the time of the run bounds all tries.
func TestStartOptionsReachTemporal(t *testing.T) {
	t.Parallel()
	f := newFrontend(t, nil)
	r := open(t, config.Temporal{Address: f.address})
	for _, c := range []struct{ limit, deadline, want time.Duration }{
		{0, time.Hour, time.Hour}, {time.Minute, time.Hour, time.Minute}, {2 * time.Hour, time.Hour, time.Hour},
	} {
		j := job(t, say)
		j.Deadline = time.Now().Add(c.deadline)
		j.Spec.Temporal.Options = v2.WorkflowOptions{
			TaskQueue: queue, Execution: int64(c.limit), Run: int64(3 * time.Second), Task: int64(2 * time.Second),
			Retry: &v2.WorkflowRetry{Initial: int64(time.Second), Coefficient: 1.5, Longest: int64(4 * time.Second), Attempts: 5, Final: []string{"disk"}},
		}
		if _, err := r.Run(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		q := f.executions[j.ID].request
		f.mu.Unlock()
		p := q.RetryPolicy
		if got := q.WorkflowExecutionTimeout.AsDuration().Round(time.Minute); got != c.want {
			t.Errorf("time for all tries: %s, want %s", got, c.want)
		}
		if q.WorkflowRunTimeout.AsDuration() != 3*time.Second || q.WorkflowTaskTimeout.AsDuration() != 2*time.Second || p.InitialInterval.AsDuration() != time.Second ||
			p.BackoffCoefficient != 1.5 || p.MaximumInterval.AsDuration() != 4*time.Second || p.MaximumAttempts != 5 || !slices.Equal(p.NonRetryableErrorTypes, []string{"disk"}) {
			t.Errorf("the request is %v", q)
		}
	}
}

// Temporal ends a workflow at its run's deadline, even without a request and if the workflow obeys no cancellation.
func TestTemporalKeepsTheDeadline(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, address string) {
		r, j := open(t, config.Temporal{Address: address}), job(t, stubborn)
		j.Deadline = time.Now().Add(2 * time.Second)
		if _, err := r.Run(t.Context(), j); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "time limit") {
			t.Errorf("%v, want that it was late", err)
		}
	})
}

// Workers and people read in the memo where a workflow comes from.
func TestTheMemoSaysWhereAWorkflowComesFrom(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, address string) {
		r, j := open(t, config.Temporal{Address: address}), job(t, say)
		if _, err := r.Run(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		found, err := connect(t, address).DescribeWorkflowExecution(t.Context(), j.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		var memo workflow.CallContext
		if err := converter.GetDefaultDataConverter().FromPayload(found.WorkflowExecutionInfo.Memo.Fields["emco"], &memo); err != nil || memo.Group != j.Group || memo.Intent != j.Intent || memo.HookType != j.Hook || memo.Revision != 3 {
			t.Errorf("%+v, %v", memo, err)
		}
	})
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	r, err := temporalrunner.New(config.Temporal{Address: "temporal.example.org:7233", TaskQueues: []string{"backups", "shop-*", "*"}[:2]}, anywhere, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := temporalrunner.New(config.Temporal{Address: "temporal.example.org:7233", TaskQueues: []string{"*"}}, anywhere, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	for queue, want := range map[string]struct{ listed, any bool }{
		"backups": {true, true}, "backups-2": {false, true}, "shop-": {true, true}, "shop-till": {true, true}, "Shop-till": {false, true}, "": {false, true},
		"temporal-sys-per-ns-tq": {false, false}, // workflows there schedule and end those of others
	} {
		s := v2.WorkflowSpec{Temporal: v2.WorkflowStart{Options: v2.WorkflowOptions{TaskQueue: queue}}}
		if err := r.Admit(s); (err == nil) != want.listed || err != nil && !errs.Is(err, errs.Forbidden) {
			t.Errorf("%q: %v", queue, err)
		}
		if err := all.Admit(s); (err == nil) != want.any {
			t.Errorf("%q of all: %v", queue, err)
		}
	}
	j := job(t, say)
	j.Spec.Temporal.Options.TaskQueue = "other"
	if _, err := r.Run(t.Context(), j); !errs.Is(err, errs.Forbidden) {
		t.Errorf("a run in a queue that is not allowed: %v", err)
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none.pem")
	for want, c := range map[string]config.Temporal{
		`address: "temporal" is not of the form HOST:PORT`: {Address: "temporal"},
		"taskQueues: missing":                              {Address: "t:7233"},
		"cert: set it with its key":                        {Address: "t:7233", TaskQueues: []string{"*"}, Cert: "c.pem"},
		"ca: open " + none:                                 {Address: "t:7233", TaskQueues: []string{"*"}, CA: none},
		"cert: open " + none:                               {Address: "t:7233", TaskQueues: []string{"*"}, Cert: none, Key: none},
	} {
		if _, err := temporalrunner.New(c, anywhere, quiet()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Errors name who can correct their cause; those that may pass are repeated, the others are final.
func TestErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	f := newFrontend(t, nil)
	r, people := open(t, config.Temporal{Address: f.address}), connect(t, f.address)
	j := job(t, hold)
	end := running(t, t.Context(), r, people, j)
	f.forget(j.ID)
	if a := <-end; !errs.Is(a.err, errs.NotFound) || !strings.Contains(a.err.Error(), "retry") {
		t.Errorf("a workflow that was deleted: %+v", a)
	}
	if _, err := open(t, config.Temporal{Address: f.address, Namespace: "other"}).Run(t.Context(), job(t, say)); !errs.Is(err, errs.NotFound) || !strings.Contains(err.Error(), "workflows.temporal.namespace") {
		t.Errorf("a namespace that does not exist: %v", err)
	}
	broken, seen := job(t, say), f.seen()
	broken.Spec.Temporal.Params = map[string]v2.PatchValue{"activityParams": v2.PatchValue(`{`)}
	if _, err := open(t, config.Temporal{Address: f.address}).Run(t.Context(), broken); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "correct the parameters") {
		t.Errorf("parameters that cannot be sent: %v after %d requests", err, f.seen()-seen)
	}
	f.refuseAll(errDenied)
	if _, err := r.Run(t.Context(), job(t, say)); !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "workflows.temporal.cert") {
		t.Errorf("no permission: %v", err)
	}
	if err := r.Cancel(t.Context(), job(t, say)); !errs.Is(err, errs.Forbidden) {
		t.Errorf("no permission to cancel: %v", err)
	}
}

// An address that the program must not dial is not dialled, and the error names it.
func TestAddressesAreChecked(t *testing.T) {
	t.Parallel()
	f := newFrontend(t, nil)
	r, err := temporalrunner.New(config.Temporal{Address: f.address, Namespace: "default", TaskQueues: []string{"*"}}, outbound.Policy{DenyPrivate: true}.Check, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	soon, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if _, err := r.Run(soon, job(t, say)); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "address 127.0.0.1 is not allowed") {
		t.Errorf("%v, want the refused address", err)
	}
	if n := f.seen(); n > 0 {
		t.Errorf("the server got %d requests", n)
	}
}
