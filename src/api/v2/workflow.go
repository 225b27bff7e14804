package v2

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// HookIntent runs a workflow before or after an action on its deployment.
type HookIntent struct {
	Named
	Spec HookIntentSpec `json:"spec"` // when, and what
}

// HookIntentSpec is the workflow, and when it runs.
type HookIntentSpec struct {
	HookType string `json:"hookType"`        // pre-install, post-install, pre-update, post-update, pre-termination or post-termination
	After    string `json:"after,omitempty"` // of a hook after install or update: ready, when clusters report that all objects are ready; applied, when all objects are applied; empty is ready
	WorkflowSpec
}

// WorkflowIntent is a workflow that users start.
type WorkflowIntent struct {
	Named
	Spec WorkflowSpec `json:"spec"` // which one
}

// WorkflowSpec names a workflow and how it is run.
type WorkflowSpec struct {
	Runner   string         `json:"runner,omitempty"`         // http: a request to the workflow client; command: a program that the operator allows; temporal: the operator's Temporal server; empty is http
	Client   WorkflowClient `json:"workflowClient"`           // of the runner http: the server that runs the workflow
	Temporal WorkflowStart  `json:"temporal"`                 // the workflow and its parameters
	Command  string         `json:"command,omitempty"`        // of the runner command: the name of the program
	Timeout  int            `json:"timeoutSeconds,omitempty"` // until a run counts as failed; 0 is 600
}

// WorkflowClient is a server that runs workflows. It answers POST /invoke/NAME.
type WorkflowClient struct {
	Scheme string `json:"scheme,omitempty"`   // http or https; empty is http
	Host   string `json:"clientEndpointName"` // host name or address
	Port   int    `json:"clientEndpointPort"` // of the server
}

// WorkflowStart is what a workflow is started with.
type WorkflowStart struct {
	Name    string                `json:"workflowClientName"`       // of the workflow; in Temporal its type
	Options WorkflowOptions       `json:"workflowStartOptions"`     // passed to the runner
	Params  map[string]PatchValue `json:"workflowParams,omitempty"` // passed to the runner
}

// WorkflowOptions are those of Temporal that EMCO passes on. Durations are in nanoseconds, as Temporal's library for Go
// writes them.
type WorkflowOptions struct {
	ID        string         `json:"ID"`                                 // the beginning of the id of each run; empty: the path of the intent
	TaskQueue string         `json:"TaskQueue"`                          // of Temporal; the runner temporal needs it
	Execution int64          `json:"WorkflowExecutionTimeout,omitempty"` // of Temporal, for a workflow with its retries; timeoutSeconds bounds it
	Run       int64          `json:"WorkflowRunTimeout,omitempty"`       // of Temporal, for one try of a workflow
	Task      int64          `json:"WorkflowTaskTimeout,omitempty"`      // of Temporal, for one step of a worker
	Retry     *WorkflowRetry `json:"RetryPolicy,omitempty"`              // of Temporal, after a workflow failed; none: it is not tried again
}

// WorkflowRetry is how often and when Temporal tries a failed workflow again.
type WorkflowRetry struct {
	Initial     int64    `json:"InitialInterval,omitempty"`        // before the first repetition; 0 is a second
	Coefficient float64  `json:"BackoffCoefficient,omitempty"`     // the growth of each pause; 0 is 2
	Longest     int64    `json:"MaximumInterval,omitempty"`        // longest pause; 0 is 100 times the first
	Attempts    int      `json:"MaximumAttempts,omitempty"`        // 0: until the workflow's time is over
	Final       []string `json:"NonRetryableErrorTypes,omitempty"` // types of errors after which it is not tried again
}

// WorkerIntent names a deployment that runs workers of a hook's workflow. EMCO stores it for people and programs.
type WorkerIntent struct {
	Named
	Spec WorkerSpec `json:"spec"` // the deployment
}

// WorkerSpec names the deployment.
type WorkerSpec struct {
	StartToClose int    `json:"startToCloseTimeout"`   // seconds that an activity may take; 0: any
	Group        string `json:"deploymentIntentGroup"` // the deployment intent group of the workers
	App          string `json:"compositeApp"`          // its composite app
	Version      string `json:"compositeAppVersion"`   // and the version of that
}

// The runners of workflows.
const (
	RunnerHTTP     = "http"
	RunnerCommand  = "command"
	RunnerTemporal = "temporal"
)

// The moments of hooks.
const (
	PreInstall      = "pre-install"
	PostInstall     = "post-install"
	PreUpdate       = "pre-update"
	PostUpdate      = "post-update"
	PreTermination  = "pre-termination"
	PostTermination = "post-termination"
)

// What a hook after install or update waits for.
const (
	AfterReady   = "ready"
	AfterApplied = "applied"
)

// Limits of workflows.
const (
	defaultTimeout    = 600       // seconds
	maxWorkflowTime   = 24 * 3600 // seconds
	maxWorkflowID     = 512
	maxWorkflowParams = 64 << 10 // bytes of all parameters
	maxCoefficient    = 100
	maxRetries        = 1_000_000
	maxFinalErrors    = 32 // types of errors, each of at most maxWorkflowID bytes
)

var (
	runners       = []string{RunnerHTTP, RunnerCommand, RunnerTemporal}
	hookTypes     = []string{PreInstall, PostInstall, PreUpdate, PostUpdate, PreTermination, PostTermination}
	printablePart = regexp.MustCompile(`^[!-~]*$`)
)

// IsBefore reports whether hooks of a type run before the change.
func IsBefore(hookType string) bool { return strings.HasPrefix(hookType, "pre-") }

// RunnerName returns the runner of the workflow.
func (s WorkflowSpec) RunnerName() string {
	if s.Runner == "" {
		return RunnerHTTP
	}
	return s.Runner
}

// Limit returns how long a run may take.
func (s WorkflowSpec) Limit() time.Duration {
	if s.Timeout == 0 {
		return defaultTimeout * time.Second
	}
	return time.Duration(s.Timeout) * time.Second
}

// URL returns where the client takes the workflow.
func (s WorkflowSpec) URL() string {
	scheme := s.Client.Scheme
	if scheme == "" {
		scheme = "http"
	}
	host := s.Client.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s://%s:%d/invoke/%s", scheme, host, s.Client.Port, s.Temporal.Name)
}

// Validate checks metadata and spec.
func (h *HookIntent) Validate() error {
	c := begin(&h.Named)
	if !slices.Contains(hookTypes, h.Spec.HookType) {
		c.fail("spec.hookType", "%s is none of %s", quote(h.Spec.HookType), strings.Join(hookTypes, ", "))
	}
	switch {
	case h.Spec.After == "":
	case h.Spec.After != AfterReady && h.Spec.After != AfterApplied:
		c.fail("spec.after", "%s is neither ready nor applied", quote(h.Spec.After))
	case h.Spec.HookType != PostInstall && h.Spec.HookType != PostUpdate:
		c.fail("spec.after", "only hooks of the types post-install and post-update have it")
	}
	h.Spec.WorkflowSpec.check(c)
	return c.err()
}

// Validate checks metadata and spec.
func (w *WorkflowIntent) Validate() error {
	c := begin(&w.Named)
	w.Spec.check(c)
	return c.err()
}

func (s WorkflowSpec) check(c *violationList) {
	if s.Runner != "" && !slices.Contains(runners, s.Runner) {
		c.fail("spec.runner", "%s is none of %s", quote(s.Runner), strings.Join(runners, ", "))
	}
	c.between("spec.timeoutSeconds", s.Timeout, 0, maxWorkflowTime)
	switch s.RunnerName() {
	case RunnerHTTP:
		s.Client.check(c)
		c.name("spec.temporal.workflowClientName", s.Temporal.Name)
	case RunnerCommand:
		c.name("spec.command", s.Command)
	case RunnerTemporal:
		c.name("spec.temporal.workflowClientName", s.Temporal.Name)
		if s.Temporal.Options.TaskQueue == "" {
			c.fail("spec.temporal.workflowStartOptions.TaskQueue", "missing; Temporal's workers listen to a task queue")
		}
	}
	for field, text := range map[string]string{"ID": s.Temporal.Options.ID, "TaskQueue": s.Temporal.Options.TaskQueue} {
		field = "spec.temporal.workflowStartOptions." + field
		c.text(field, text, maxWorkflowID)
		if !printablePart.MatchString(text) {
			c.fail(field, "%s is no text of printable ASCII characters", quote(text))
		}
	}
	s.Temporal.Options.check(c)
	size := 0
	for name, value := range s.Temporal.Params {
		size += len(name) + len(value)
	}
	if size > maxWorkflowParams {
		c.fail("spec.temporal.workflowParams", "%d bytes long, at most %d are allowed", size, maxWorkflowParams)
	}
	c.sort()
}

func (o WorkflowOptions) check(c *violationList) {
	const field = "spec.temporal.workflowStartOptions."
	c.duration(field+"WorkflowExecutionTimeout", o.Execution)
	c.duration(field+"WorkflowRunTimeout", o.Run)
	c.duration(field+"WorkflowTaskTimeout", o.Task)
	if o.Retry == nil {
		return
	}
	const retry = field + "RetryPolicy."
	c.duration(retry+"InitialInterval", o.Retry.Initial)
	c.duration(retry+"MaximumInterval", o.Retry.Longest)
	c.between(retry+"MaximumAttempts", o.Retry.Attempts, 0, maxRetries)
	if o.Retry.Coefficient != 0 && (o.Retry.Coefficient < 1 || o.Retry.Coefficient > maxCoefficient) {
		c.fail(retry+"BackoffCoefficient", "%v is not between 1 and %d", o.Retry.Coefficient, maxCoefficient)
	}
	if len(o.Retry.Final) > maxFinalErrors {
		c.fail(retry+"NonRetryableErrorTypes", "%d entries, at most %d are allowed", len(o.Retry.Final), maxFinalErrors)
		return
	}
	for i, name := range o.Retry.Final {
		c.text(fmt.Sprintf("%sNonRetryableErrorTypes[%d]", retry, i), name, maxWorkflowID)
	}
}

// duration checks a number of nanoseconds.
func (c *violationList) duration(field string, ns int64) {
	if ns < 0 || ns > int64(maxWorkflowTime*time.Second) {
		c.fail(field, "%d is not between 0 and %d nanoseconds", ns, int64(maxWorkflowTime*time.Second))
	}
}

func (w WorkflowClient) check(c *violationList) {
	if w.Scheme != "" && w.Scheme != "http" && w.Scheme != "https" {
		c.fail("spec.workflowClient.scheme", "%s is neither http nor https", quote(w.Scheme))
	}
	switch {
	case w.Host == "":
		c.fail("spec.workflowClient.clientEndpointName", "missing")
	case len(w.Host) > maxObjectName || !hostPattern.MatchString(w.Host) || strings.ContainsAny(w.Host, "[]"):
		c.fail("spec.workflowClient.clientEndpointName", "%s is no host name or address", quote(w.Host))
	}
	c.between("spec.workflowClient.clientEndpointPort", w.Port, 1, 65535)
}

// Validate checks metadata and spec.
func (w *WorkerIntent) Validate() error {
	c := begin(&w.Named)
	c.between("spec.startToCloseTimeout", w.Spec.StartToClose, 0, maxWorkflowTime)
	c.name("spec.deploymentIntentGroup", w.Spec.Group)
	c.name("spec.compositeApp", w.Spec.App)
	c.name("spec.compositeAppVersion", w.Spec.Version)
	return c.err()
}

// WorkflowStatus is the last run of a workflow.
type WorkflowStatus struct {
	Name     string `json:"name"`               // of the intent
	HookType string `json:"hookType,omitempty"` // empty: users start it
	State    string `json:"state"`              // see RunWaiting and the others

	ID       string    `json:"workflowID,omitempty"` // of the run: requests and programs get it as their idempotency key
	Revision int64     `json:"revision,omitempty"`   // of the deployment that the hook belongs to
	Attempt  int       `json:"attempt,omitempty"`
	Message  string    `json:"message,omitempty"` // what it waits for, or why it failed
	Result   string    `json:"result,omitempty"`  // what the workflow answered; the first part
	Since    time.Time `json:"since,omitzero"`    // beginning of the state
	Started  time.Time `json:"started,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`    // when the run counts as failed
	Next     time.Time `json:"nextAttempt,omitzero"` // after an attempt that failed for a time
	Actions  []string  `json:"actions,omitempty"`    // that its state allows: retry, skip, abort, cancel, start
}

// The states of runs.
const (
	RunNotStarted = "NotStarted" // there was no run yet
	RunWaiting    = "Waiting"    // for its turn, or for the deployment
	RunRunning    = "Running"
	RunSucceeded  = "Succeeded"
	RunFailed     = "Failed"   // a user decides: retry, skip or abort
	RunCanceled   = "Canceled" // by a user, who decides as after a failure
	RunSkipped    = "Skipped"  // by a user
	RunReplaced   = "Replaced" // the action that needed it was replaced or ended
)

// WorkflowCancel is the optional body of a cancellation, as upstream EMCO has it.
type WorkflowCancel struct {
	Spec WorkflowCancelSpec `json:"spec"` // why
}

// WorkflowCancelSpec is the reason. Members of upstream EMCO that name a server or a run are dropped: an intent
// has one run at a time, and EMCO knows where.
type WorkflowCancelSpec struct {
	Reason    string `json:"reason,omitempty"`    // for people
	Terminate bool   `json:"terminate,omitempty"` // in Temporal, end the workflow at once, without its consent
}
