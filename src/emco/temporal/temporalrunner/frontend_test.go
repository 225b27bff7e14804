package temporalrunner_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/failure/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	sdk "go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// The workflows of the tests: workers run them on a real server, and frontend imitates them.
const (
	echo     = "echo"     // returns its parameters
	say      = "say"      // returns the text "done"
	silent   = "silent"   // returns nothing
	fail     = "fail"     // fails
	hold     = "hold"     // waits for the signal "go", returns the id of its execution; it can be canceled
	stubborn = "stubborn" // waits for the signal, and takes no notice of cancellations
)

const queue = "shop-backups"

// servers are the Temporal servers that tests run on, by address: a double, and the real one that EMCO_TEMPORAL names.
func servers(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{"double": newFrontend(t, nil).address}
	if at := os.Getenv("EMCO_TEMPORAL"); at != "" {
		work(t, at)
		out["real"] = at
	}
	return out
}

// work runs a worker of the tests' workflows.
func work(t *testing.T, address string) {
	t.Helper()
	w := worker.New(connect(t, address), queue, worker.Options{})
	register := func(name string, run any) { w.RegisterWorkflowWithOptions(run, sdk.RegisterOptions{Name: name}) }
	register(echo, func(_ sdk.Context, in map[string]any) (map[string]any, error) { return in, nil })
	register(say, func(sdk.Context, any) (string, error) { return "done", nil })
	register(silent, func(sdk.Context, any) error { return nil })
	register(fail, func(sdk.Context, any) error { return temporal.NewApplicationError("no space left", "disk") })
	register(hold, func(ctx sdk.Context, _ any) (string, error) {
		if err := sdk.Await(ctx, func() bool { return sdk.GetSignalChannel(ctx, "go").Len() > 0 }); err != nil {
			return "", err
		}
		return sdk.GetInfo(ctx).WorkflowExecution.RunID, nil
	})
	register(stubborn, func(ctx sdk.Context, _ any) error {
		sdk.GetSignalChannel(ctx, "go").Receive(ctx, nil)
		return nil
	})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
}

// connect returns a client as workers and people use it.
func connect(t *testing.T, address string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Logger: log.NewStructuredLogger(quiet())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// frontend is a Temporal server in memory. It keeps executions, and refuses requests, as a real one does.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	address string

	mu         sync.Mutex
	executions map[string]*execution // the newest of each workflow id; guarded by mu
	refuse     error                 // answered to all requests; guarded by mu
	requests   int                   // guarded by mu
}

type execution struct {
	id      *common.WorkflowExecution
	request *workflowservice.StartWorkflowExecutionRequest
	over    chan struct{}         // closed with the end
	end     *history.HistoryEvent // nil while it goes on; guarded by the frontend's mu
}

// newFrontend starts a server, with TLS if secure is not nil.
func newFrontend(t *testing.T, secure *tls.Config) *frontend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &frontend{address: l.Addr().String(), executions: map[string]*execution{}}
	opts := []grpc.ServerOption{grpc.UnaryInterceptor(f.admit)}
	if secure != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(secure)))
	}
	s := grpc.NewServer(opts...)
	workflowservice.RegisterWorkflowServiceServer(s, f)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return f
}

func (f *frontend) admit(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	f.mu.Lock()
	f.requests++
	err := f.refuse
	f.mu.Unlock()
	if in, ok := request.(interface{ GetNamespace() string }); ok && err == nil && in.GetNamespace() != "default" {
		err = serviceerror.NewNamespaceNotFound(in.GetNamespace())
	}
	if err != nil {
		return nil, serviceerror.ToStatus(err).Err()
	}
	out, err := handle(ctx, request)
	if err != nil {
		return nil, serviceerror.ToStatus(err).Err()
	}
	return out, nil
}

func (f *frontend) refuseAll(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

func (f *frontend) seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

// forget drops an execution, as an operator's deletion does.
func (f *frontend) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.executions[id]
	delete(f.executions, id)
	close(e.over)
}

func (f *frontend) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}}, nil
}

func (f *frontend) StartWorkflowExecution(_ context.Context, r *workflowservice.StartWorkflowExecutionRequest) (*workflowservice.StartWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.executions[r.WorkflowId]; e != nil {
		switch {
		case e.end == nil && r.WorkflowIdConflictPolicy == enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING:
			return &workflowservice.StartWorkflowExecutionResponse{RunId: e.id.RunId}, nil
		case e.end == nil || r.WorkflowIdReusePolicy == enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE:
			return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("Workflow execution already started", r.RequestId, e.id.RunId)
		}
	}
	e := &execution{id: &common.WorkflowExecution{WorkflowId: r.WorkflowId, RunId: r.RequestId}, request: r, over: make(chan struct{})}
	f.executions[r.WorkflowId] = e
	switch r.WorkflowType.Name {
	case echo:
		f.complete(e, r.Input)
	case say:
		f.complete(e, text("done"))
	case silent:
		f.complete(e, nil)
	case fail:
		f.endLocked(e, &history.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, Attributes: &history.HistoryEvent_WorkflowExecutionFailedEventAttributes{
			WorkflowExecutionFailedEventAttributes: &history.WorkflowExecutionFailedEventAttributes{Failure: &failure.Failure{
				Message: "no space left", FailureInfo: &failure.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failure.ApplicationFailureInfo{Type: "disk"}},
			}},
		}})
	}
	time.AfterFunc(r.WorkflowExecutionTimeout.AsDuration(), func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.endLocked(e, &history.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT, Attributes: &history.HistoryEvent_WorkflowExecutionTimedOutEventAttributes{
			WorkflowExecutionTimedOutEventAttributes: &history.WorkflowExecutionTimedOutEventAttributes{},
		}})
	})
	return &workflowservice.StartWorkflowExecutionResponse{RunId: e.id.RunId, Started: true}, nil
}

func text(s string) *common.Payloads {
	return &common.Payloads{Payloads: []*common.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"` + s + `"`)}}}
}

func (f *frontend) complete(e *execution, result *common.Payloads) {
	f.endLocked(e, &history.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, Attributes: &history.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
		WorkflowExecutionCompletedEventAttributes: &history.WorkflowExecutionCompletedEventAttributes{Result: result},
	}})
}

func (f *frontend) endLocked(e *execution, end *history.HistoryEvent) {
	if e.end == nil && f.executions[e.id.WorkflowId] == e {
		e.end = end
		close(e.over)
	}
}

// findLocked returns an execution that goes on, or also one that is over.
func (f *frontend) findLocked(id string, over bool) (*execution, error) {
	e := f.executions[id]
	switch {
	case e == nil:
		return nil, serviceerror.NewNotFoundf("no execution of workflow %s", id)
	case e.end != nil && !over:
		return nil, serviceerror.NewNotFound("workflow execution already completed")
	}
	return e, nil
}

// GetWorkflowExecutionHistory answers the end of an execution. It waits for the end until the client gives up.
func (f *frontend) GetWorkflowExecutionHistory(ctx context.Context, r *workflowservice.GetWorkflowExecutionHistoryRequest) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	f.mu.Lock()
	e, err := f.findLocked(r.Execution.WorkflowId, true)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-e.over:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, err = f.findLocked(r.Execution.WorkflowId, true); err != nil {
		return nil, err
	}
	return &workflowservice.GetWorkflowExecutionHistoryResponse{History: &history.History{Events: []*history.HistoryEvent{e.end}}}, nil
}

func (f *frontend) DescribeWorkflowExecution(_ context.Context, r *workflowservice.DescribeWorkflowExecutionRequest) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, err := f.findLocked(r.Execution.WorkflowId, true)
	if err != nil {
		return nil, err
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Execution: e.id, Type: e.request.WorkflowType, Memo: e.request.Memo}}, nil
}

func (f *frontend) SignalWorkflowExecution(_ context.Context, r *workflowservice.SignalWorkflowExecutionRequest) (*workflowservice.SignalWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, err := f.findLocked(r.WorkflowExecution.WorkflowId, false)
	if err != nil {
		return nil, err
	}
	f.complete(e, text(e.id.RunId))
	return &workflowservice.SignalWorkflowExecutionResponse{}, nil
}

func (f *frontend) RequestCancelWorkflowExecution(_ context.Context, r *workflowservice.RequestCancelWorkflowExecutionRequest) (*workflowservice.RequestCancelWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, err := f.findLocked(r.WorkflowExecution.WorkflowId, false)
	if err == nil && e.request.WorkflowType.Name == hold {
		f.endLocked(e, &history.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, Attributes: &history.HistoryEvent_WorkflowExecutionCanceledEventAttributes{
			WorkflowExecutionCanceledEventAttributes: &history.WorkflowExecutionCanceledEventAttributes{},
		}})
	}
	return &workflowservice.RequestCancelWorkflowExecutionResponse{}, err
}

func (f *frontend) TerminateWorkflowExecution(_ context.Context, r *workflowservice.TerminateWorkflowExecutionRequest) (*workflowservice.TerminateWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, err := f.findLocked(r.WorkflowExecution.WorkflowId, false)
	if err == nil {
		f.endLocked(e, &history.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, Attributes: &history.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
			WorkflowExecutionTerminatedEventAttributes: &history.WorkflowExecutionTerminatedEventAttributes{},
		}})
	}
	return &workflowservice.TerminateWorkflowExecutionResponse{}, err
}

var errDenied = status.Error(codes.PermissionDenied, "Request unauthorized.")
