// Package commandrunner runs workflows by programs that the operator allows. They run without a shell,
// arguments or environment, with limits on time, memory and output. A program gets the job as JSON from stdin, and
// its exit code is the outcome: 0 for success, 75 to be run again later, any other for a failure.
package commandrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/childproc"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

const (
	exitAgain = 75 // EX_TEMPFAIL of sysexits.h
	maxOutput = 64 << 10
)

// Runner runs programs. It is safe for concurrent use.
type Runner struct {
	paths  map[string]string
	memory uint64
	slots  *fairshare.Shares // of processor time and memory, by project
}

// New returns a runner of the entries "name=/path", each run with at most memory bytes.
func New(entries []string, memory uint64) (*Runner, error) {
	paths, err := childproc.FindPrograms(entries)
	if err != nil {
		return nil, err
	}
	n := 2 * runtime.GOMAXPROCS(0)
	return &Runner{paths: paths, memory: memory, slots: fairshare.New(fairshare.Options{Permits: n, Spare: n})}, nil
}

// Admit returns Forbidden for a program that the operator does not allow.
func (r *Runner) Admit(s v2.WorkflowSpec) error {
	if r.paths[s.Command] != "" {
		return nil
	}
	return errs.New(errs.Forbidden, fmt.Sprintf("program %q is not allowed; the operator allows %s with workflows.programs", s.Command, strings.Join(slices.Sorted(maps.Keys(r.paths)), ", ")))
}

// Run starts the program and waits for its end. A project always gets to run one, however many of others run.
func (r *Runner) Run(ctx context.Context, j workflow.Job) (string, error) {
	if err := r.Admit(j.Spec); err != nil {
		return "", err
	}
	question, err := json.Marshal(j.Call())
	if err != nil {
		return "", errs.E(errs.Internal, "encode", j.ID, err)
	}
	release, err := r.slots.Acquire(ctx, v2.ProjectOf(j.Group), fairshare.Fresh)
	if err != nil {
		return "", errs.E(errs.Unavailable, "run", j.Spec.Command, context.Cause(ctx))
	}
	defer release()
	left := j.Spec.Limit()
	if at, limited := ctx.Deadline(); limited {
		left = time.Until(at)
	}
	child := childproc.Child{Path: r.paths[j.Spec.Command], Dir: "/", Tied: true, Limits: childproc.Limits{Time: left, Memory: r.memory, Output: maxOutput, File: childproc.AnySize}}
	a, err := child.Ask(ctx, question)
	if err == nil {
		return string(a.Text), nil
	}
	kind := errs.Invalid
	if exit, ok := errors.AsType[*exec.ExitError](err); ctx.Err() != nil || errors.Is(err, childproc.ErrLate) || ok && exit.ExitCode() == exitAgain {
		kind = errs.Unavailable
	}
	if said := strings.TrimSpace(strings.ToValidUTF8(a.Stderr, "")); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return "", errs.E(kind, "run", "program "+j.Spec.Command, err)
}

// Cancel does nothing: a program ends with its run, and on Linux with this process.
func (r *Runner) Cancel(context.Context, workflow.Job) error { return nil }
