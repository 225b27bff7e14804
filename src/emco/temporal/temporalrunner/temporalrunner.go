// Package temporalrunner runs workflows on the operator's Temporal server. The id of a run is the id of its
// workflow: Temporal starts it once, and each further call waits for the same workflow.
package temporalrunner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/tlsfiles"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

const (
	requestLimit = 10 * time.Second // of one request, with the client's retries
	waitLimit    = 30 * time.Second // of one wait for the end; after it the server must answer a request
	maxAnswer    = 8 << 20          // bytes of one answer of the server
	ownQueues    = "temporal-sys-"  // task queues of Temporal's own workflows
)

// Runner runs workflows on a Temporal server. It is safe for concurrent use.
type Runner struct {
	client client.Client
	queues []string // that workflows may use; a name, or the beginning of names with * at its end
}

// New returns a runner for the server of c, which it reaches at addresses that admit returns no error for. It connects
// with the first workflow, so it needs no server to start.
func New(c config.Temporal, admit func(netip.Addr) error, logger *slog.Logger) (*Runner, error) {
	if host, port, err := net.SplitHostPort(c.Address); err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("address: %q is not of the form HOST:PORT", c.Address)
	}
	if len(c.TaskQueues) == 0 {
		return nil, errors.New("taskQueues: missing; list the task queues that workflows may use, * for all")
	}
	secure, err := tlsfiles.Client{CA: c.CA, Cert: c.Cert, Key: c.Key}.Config()
	if err != nil {
		return nil, err
	}
	dialer := outbound.Dialer(admit)
	to, err := client.NewLazyClient(client.Options{
		HostPort: c.Address, Namespace: c.Namespace, Logger: log.NewStructuredLogger(logger),
		ConnectionOptions: client.ConnectionOptions{
			TLS: secure, TLSDisabled: secure == nil, MaxPayloadSize: maxAnswer,
			DialOptions: []grpc.DialOption{
				grpc.WithChainUnaryInterceptor(noteFailure),
				grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
					return dialer.DialContext(ctx, "tcp", address)
				}),
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	return &Runner{client: to, queues: c.TaskQueues}, nil
}

// Close ends the connection. Workflows go on.
func (r *Runner) Close() error {
	r.client.Close()
	return nil
}

// Admit returns Forbidden for a task queue that the operator does not allow.
func (r *Runner) Admit(s v2.WorkflowSpec) error {
	queue := s.Temporal.Options.TaskQueue
	allowed := slices.ContainsFunc(r.queues, func(listed string) bool {
		start, open := strings.CutSuffix(listed, "*")
		return listed == queue || open && strings.HasPrefix(queue, start)
	})
	switch {
	case strings.HasPrefix(queue, ownQueues):
		return errs.New(errs.Forbidden, fmt.Sprintf("task queue %q is Temporal's own; use one of your workers", queue))
	case !allowed:
		return errs.New(errs.Forbidden, fmt.Sprintf("task queue %q is not allowed; the operator allows task queues with workflows.temporal.taskQueues", queue))
	}
	return nil
}

// Run starts the workflow, unless an earlier call did, and waits for its end.
func (r *Runner) Run(ctx context.Context, j workflow.Job) (string, error) {
	if err := r.Admit(j.Spec); err != nil {
		return "", err
	}
	started, err := r.start(ctx, j)
	if err != nil {
		return "", err
	}
	for {
		result, err := wait(ctx, j, started)
		if !errors.Is(err, errUndecided) {
			return result, err
		}
		if err := r.ask(ctx, j); err != nil {
			return "", err
		}
	}
}

// start starts the workflow, or finds the one that was started with the run's id. Temporal ends it at the deadline, even
// if EMCO does not run then.
func (r *Runner) start(ctx context.Context, j workflow.Job) (client.WorkflowRun, error) {
	call, how := j.Call(), j.Spec.Temporal.Options
	left := max(time.Until(j.Deadline), time.Second)
	if how.Execution > 0 {
		left = min(left, time.Duration(how.Execution))
	}
	var started client.WorkflowRun
	err := request(ctx, "start workflow", j, func(ctx context.Context) (err error) {
		started, err = r.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: j.ID, TaskQueue: how.TaskQueue, WorkflowExecutionTimeout: left,
			WorkflowRunTimeout: time.Duration(how.Run), WorkflowTaskTimeout: time.Duration(how.Task), RetryPolicy: retryOf(how.Retry),
			WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			Memo:                     map[string]any{"emco": call.Context},
		}, j.Spec.Temporal.Name, call.Params)
		return err
	})
	return started, err
}

func retryOf(r *v2.WorkflowRetry) *temporal.RetryPolicy {
	if r == nil {
		return nil
	}
	return &temporal.RetryPolicy{
		InitialInterval: time.Duration(r.Initial), BackoffCoefficient: r.Coefficient, MaximumInterval: time.Duration(r.Longest),
		MaximumAttempts: int32(r.Attempts), NonRetryableErrorTypes: r.Final,
	}
}

// errUndecided means that a workflow goes on.
var errUndecided = errors.New("the workflow goes on")

// wait waits a while for the end of a workflow.
func wait(ctx context.Context, j workflow.Job, started client.WorkflowRun) (string, error) {
	bounded, stop := context.WithTimeout(ctx, waitLimit)
	defer stop()
	var result converter.RawValue
	err := started.Get(bounded, &result)
	if err == nil {
		return textOf(result), nil
	}
	if end := endOf(err); end != nil {
		return "", errs.E(errs.Invalid, "workflow", j.ID, end)
	}
	switch {
	case ctx.Err() != nil:
		return "", errs.E(errs.Unavailable, "wait for workflow", j.ID, context.Cause(ctx))
	case bounded.Err() != nil:
		return "", errUndecided
	}
	return "", requestError("wait for workflow", j, err)
}

// ask returns nil if the server has the workflow, whether it goes on or is over.
func (r *Runner) ask(ctx context.Context, j workflow.Job) error {
	return request(ctx, "wait for workflow", j, func(ctx context.Context) error {
		_, err := r.client.DescribeWorkflowExecution(ctx, j.ID, "")
		return err
	})
}

// Cancel asks the workflow to end, or terminates it. One that does not obey ends at the run's deadline.
func (r *Runner) Cancel(ctx context.Context, j workflow.Job) error {
	return request(ctx, "cancel workflow", j, func(ctx context.Context) (err error) {
		if j.Terminate {
			err = r.client.TerminateWorkflow(ctx, j.ID, "", "a user of EMCO ends it")
		} else {
			err = r.client.CancelWorkflow(ctx, j.ID, "")
		}
		if _, over := errors.AsType[*serviceerror.NotFound](err); over {
			return nil
		}
		return err
	})
}

// failureKey is the key of a context for the last failure of a request: the client repeats a request until its time is
// up, and then no longer knows why.
type failureKey struct{}

// request sends a request, for a limited time.
func request(ctx context.Context, op string, j workflow.Job, send func(context.Context) error) error {
	bounded, stop := context.WithTimeout(ctx, requestLimit)
	defer stop()
	var last error
	err := send(context.WithValue(bounded, failureKey{}, &last))
	switch {
	case err == nil:
		return nil
	case bounded.Err() != nil && last != nil:
		err = last
	}
	return requestError(op, j, err)
}

// noteFailure is the innermost interceptor: it sees each attempt of a request.
func noteFailure(ctx context.Context, method string, question, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, question, answer, conn, opts...)
	if last, ok := ctx.Value(failureKey{}).(*error); ok && err != nil && ctx.Err() == nil {
		*last = err
	}
	return err
}
