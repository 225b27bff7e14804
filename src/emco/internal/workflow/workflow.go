// Package workflow defines runners, which carry out workflows, and where hooks sit in an action:
//
//	request ─► head: the operation waits ─► hooks before it, in order of name ─► Release ─► revision, or removal
//	                                         └─ Abort: the operation ends
//	status: everything is applied and ready, or removed ─► hooks after it, in order of name
//
// The functions here decide from records; svc/workflowmgr writes these, and runs the workflows.
package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// Where the intents are, below a deployment intent group.
const (
	HookCollection     = "temporal-action-controller"
	WorkflowCollection = "temporal-workflow-intents"
)

// MaxHooks bounds the hooks of one type that a group may have.
const MaxHooks = 16

// Runner carries out workflows.
type Runner interface {
	// Admit returns why a workflow may not run: Forbidden if the operator does not allow it.
	Admit(v2.WorkflowSpec) error
	// Run carries a job out and returns what the workflow answered. It may be called again with
	// the same job, after a crash or an error that may pass, while an earlier call still has an
	// effect. Unavailable and Throttled are errors that may pass; all others are final.
	Run(ctx context.Context, j Job) (result string, err error)
	// Cancel ends what a job still does elsewhere. Its run is not awaited any longer.
	Cancel(ctx context.Context, j Job) error
}

// Job is one run of a workflow.
type Job struct {
	ID       string // equal IDs are the same run
	Attempt  int    // from 1
	Group    string // path of the deployment intent group
	Intent   string // name of the intent
	Hook     string // type of the hook; empty: a user started it
	Revision int64  // of the deployment that the hook belongs to
	Deadline time.Time
	Spec     v2.WorkflowSpec

	Terminate bool // for Cancel: the workflow is not asked
}

// Runners are those of the program, by name.
type Runners map[string]Runner

// Of returns the runner of a workflow; Forbidden if the program does not have it.
func (r Runners) Of(s v2.WorkflowSpec) (Runner, error) {
	if own := r[s.RunnerName()]; own != nil {
		return own, nil
	}
	remedy := map[string]string{
		v2.RunnerHTTP:     "the operator allows servers with workflows.endpoints",
		v2.RunnerCommand:  "the operator allows programs with workflows.programs",
		v2.RunnerTemporal: "the operator runs emco-temporal instead of emco, and sets workflows.temporal.address and taskQueues",
	}[s.RunnerName()]
	return nil, errs.New(errs.Forbidden, fmt.Sprintf("the runner %s is off: %s", s.RunnerName(), remedy))
}

// Admit returns why a workflow may not run.
func (r Runners) Admit(s v2.WorkflowSpec) error {
	own, err := r.Of(s)
	if err != nil {
		return err
	}
	return own.Admit(s)
}

// NewID returns an id for a run of the intent at a path.
func NewID(path string, s v2.WorkflowSpec) string {
	if s.Temporal.Options.ID != "" {
		path = s.Temporal.Options.ID
	}
	return path + "/" + appcontext.NewContextID()
}

// Passed reports whether what comes after a run may begin. A run that was replaced does not count for the operation
// that it belongs to. h is the deployment's head; nil if it has none.
func Passed(r appcontext.WorkflowRun, h *appcontext.Head) bool {
	switch r.State {
	case v2.RunSucceeded, v2.RunSkipped:
		return true
	case v2.RunReplaced:
		return h == nil || h.Op == nil || h.Op.ID != r.Operation
	}
	return false
}

// Undecided reports whether a user must decide how to go on.
func Undecided(r appcontext.WorkflowRun) bool {
	return r.State == v2.RunFailed || r.State == v2.RunCanceled
}

// Wanted reports whether the deployment still needs the run. h is its head; nil if it has none.
func Wanted(r appcontext.WorkflowRun, h *appcontext.Head) bool {
	switch {
	case r.Hook == "":
		return true
	case h == nil:
		return false
	case h.Op != nil && h.Op.ID == r.Operation:
		return true
	case h.Op != nil || v2.IsBefore(r.Hook):
		return false
	case r.Hook == v2.PostTermination:
		return h.Gone && !h.State.Live() && h.Owns()
	}
	return h.State.Live() && !h.Gone && h.Failure == "" && h.Rev == r.Rev && h.Owns()
}

// Gates reports whether the head's operation waits for the run.
func Gates(r appcontext.WorkflowRun, h *appcontext.Head) bool {
	return v2.IsBefore(r.Hook) && h != nil && h.Op != nil && h.Op.Hooks && h.Op.ID == r.Operation
}

// Release returns the change of a head whose hooks are complete: the orchestrator makes the
// revision, or rsync removes the deployment.
func Release(h appcontext.Head, now time.Time) appcontext.HeadChange {
	to, op := h, *h.Op
	if op.Terminates() {
		to.Op, to.Gone, to.Failure, to.Terminated = nil, true, "", now
		return appcontext.HeadChange{From: h, To: to, Events: []appcontext.Event{{
			At: now, Type: appcontext.Normal, Reason: v2.EventReasonHooksComplete, Message: "nothing is desired any longer",
		}}}
	}
	op.Hooks = false
	to.Op = &op
	return appcontext.HeadChange{From: h, To: to, Op: &op, Events: []appcontext.Event{{
		At: now, Type: appcontext.Normal, Reason: v2.EventReasonHooksComplete, Message: fmt.Sprintf("revision %d is made now", op.Rev), Rev: op.Rev,
	}}}
}

// Abort returns the change that ends an operation that waits for a hook. What runs stays as it is.
func Abort(h appcontext.Head, r appcontext.WorkflowRun, instance, actor string, now time.Time) (appcontext.HeadChange, error) {
	if !Gates(r, &h) {
		return appcontext.HeadChange{}, errs.E(errs.Conflict, "abort", string(r.Name), errors.New("no action waits for this hook; retry or skip it"))
	}
	name, _ := r.Name.Intent()
	to, op := h, h.Op
	to.Op = nil
	m := appcontext.HeadChange{From: h, Events: []appcontext.Event{{
		At: now, Type: appcontext.Warning, Reason: v2.EventReasonAborted, Message: fmt.Sprintf("%s: aborted at hook %s", op.Kind, name), Actor: actor, Rev: op.Rev,
	}}}
	if op.Terminates() {
		to.State, to.Failure, to.Stopped = op.Before, op.Failure, op.Before == appcontext.InstantiateStopped || op.Before == appcontext.TerminateStopped
		m.Acts = []appcontext.HistoryEntry{{State: to.State, Instance: instance, Time: now, Actor: actor, Ask: "abort"}}
	} else {
		to.Failure = fmt.Sprintf("%s: %s aborted it at hook %s; update or instantiate again", op.Kind, actor, name)
	}
	m.To = to
	return m, nil
}

// The actions that users may request for a run.
const (
	ActionStart  = "start"
	ActionCancel = "cancel"
	ActionRetry  = "retry"
	ActionSkip   = "skip"
	ActionAbort  = "abort"
)

// Actions returns what users may request for a run.
func Actions(r appcontext.WorkflowRun, h *appcontext.Head) (out []string) {
	wanted := Wanted(r, h)
	switch {
	case r.Hook == "" && (Passed(r, h) || Undecided(r)):
		return []string{ActionStart}
	case !wanted:
		return nil
	case r.State == v2.RunRunning && r.Cancel != "":
	case r.State == v2.RunRunning, r.State == v2.RunWaiting && r.Hook == "":
		out = append(out, ActionCancel)
	case r.State == v2.RunWaiting:
		out = append(out, ActionSkip)
	case Undecided(r), r.State == v2.RunReplaced && !Passed(r, h):
		out = append(out, ActionRetry, ActionSkip)
	}
	if Gates(r, h) {
		out = append(out, ActionAbort)
	}
	return out
}

// Status returns what users see of a run.
func Status(r appcontext.WorkflowRun, h *appcontext.Head) v2.WorkflowStatus {
	name, _ := r.Name.Intent()
	return v2.WorkflowStatus{
		Name: name, HookType: r.Hook, State: r.State, ID: r.ID, Revision: r.Rev, Attempt: r.Attempt, Message: r.Message, Result: r.Result,
		Since: r.Since, Started: r.Started, Deadline: r.Deadline, Next: r.Next, Actions: Actions(r, h),
	}
}

// Call is what servers and programs get of a job, in JSON. The first two members are upstream's.
type Call struct {
	Options v2.WorkflowOptions       `json:"workflowStartOptions"` // ID is that of the run
	Params  map[string]v2.PatchValue `json:"workflowParams"`
	Context CallContext              `json:"emco"`
}

// CallContext describes the caller of a workflow.
type CallContext struct {
	Workflow string    `json:"workflow,omitempty"` // its name
	Group    string    `json:"deploymentIntentGroup"`
	Intent   string    `json:"intent"`
	HookType string    `json:"hookType,omitempty"`
	Revision int64     `json:"revision,omitempty"`
	Attempt  int       `json:"attempt"`
	Deadline time.Time `json:"deadline"`
}

// Call returns what servers and programs get of the job.
func (j Job) Call() Call {
	options, params := j.Spec.Temporal.Options, j.Spec.Temporal.Params
	if options.ID = j.ID; params == nil {
		params = map[string]v2.PatchValue{}
	}
	return Call{options, params, CallContext{
		Workflow: j.Spec.Temporal.Name, Group: j.Group, Intent: j.Intent, HookType: j.Hook, Revision: j.Revision, Attempt: j.Attempt, Deadline: j.Deadline,
	}}
}
