package workflowmgr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

const (
	firstRetry    = time.Second // after an error that may pass; each next pause is twice as long
	longestRetry  = time.Minute
	cancelTimeout = 10 * time.Second
	recordPause   = time.Second // between attempts to record an outcome, while etcd does not answer
	maxResult     = 4 << 10     // bytes of an answer that are kept
	maxMessage    = 1 << 10     // bytes of an error that are kept
)

// Why an execution ends early.
var (
	errCanceled = errors.New("it is canceled")
	errReplaced = errors.New("another run took its place")
	errLate     = errors.New("it did not end in time")
)

// execution is a run that this process carries out.
type execution struct {
	id     string
	cancel context.CancelCauseFunc
	over   bool // guarded by reconciler.mu
}

// forgetEnded drops executions that are over. It precedes a reading of the runs: what was read before an execution
// recorded its end must not start it again.
func (r *reconciler) forgetEnded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.live, func(_ appcontext.RunName, e *execution) bool { return e.over })
}

// endOthers ends executions whose runs were canceled, replaced or removed.
func (r *reconciler) endOthers(runs []appcontext.WorkflowRun) {
	now := map[appcontext.RunName]appcontext.WorkflowRun{}
	for _, run := range runs {
		now[run.Name] = run
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, e := range r.live {
		switch run := now[name]; {
		case run.ID != e.id || !unfinished(run):
			e.cancel(errReplaced)
		case run.Cancel != "":
			e.cancel(errCanceled)
		}
	}
}

// start carries a run out, unless that is under way, or ended after the runs were read. An execution that ends has the
// deployment looked at again.
func (r *reconciler) start(ctx context.Context, run appcontext.WorkflowRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[run.Name] != nil {
		return
	}
	own, cancel := context.WithCancelCause(ctx)
	e := &execution{id: run.ID, cancel: cancel}
	r.live[run.Name] = e
	r.jobs.Go(func() {
		defer r.ended(e)
		defer cancel(nil)
		err := r.panics.Do(contain.Workflows, "workflow "+string(run.Name), func() error { return r.execute(ctx, own, run) })
		if contain.Is(err) {
			err = r.finish(ctx, run, v2.RunFailed, err.Error(), "")
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("a run of a workflow is not recorded", "deployment", r.uid, "run", run.Name, "err", err)
		}
	})
}

func (r *reconciler) ended(e *execution) {
	r.mu.Lock()
	e.over = true
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// runPermit is the permit of a run, which it gives back while it pauses.
type runPermit struct {
	shares  *fairshare.Shares
	project string
	release func() // nil: the run has no permit
}

// take waits for the permit. The error is that of ctx.
func (t *runPermit) take(ctx context.Context) (err error) {
	t.release, err = t.shares.Acquire(ctx, t.project, fairshare.Fresh)
	return err
}

// yield gives the permit back, if the run has it.
func (t *runPermit) yield() {
	if t.release != nil {
		t.release()
		t.release = nil
	}
}

// execute carries a run out to its end. ctx is the process's, own ends with the run.
func (r *reconciler) execute(ctx, own context.Context, run appcontext.WorkflowRun) error {
	t := &runPermit{shares: r.shares, project: store.Key(run.Group).Project()}
	defer t.yield()
	if run.Cancel == "" { // the end of a run must not wait for others
		if err := t.take(own); err != nil {
			return nil // the process ends, or the run was replaced before it began
		}
	}
	runner, job, err := r.readJob(own, run)
	if own.Err() != nil { // a canceled run starts again, to be ended
		return nil
	}
	if err != nil {
		return r.finish(ctx, run, v2.RunFailed, err.Error(), "")
	}
	if run.State == v2.RunWaiting {
		job.Deadline = r.now().UTC().Add(job.Spec.Limit())
		run, err = r.change(own, run, func(now *appcontext.WorkflowRun) {
			now.State, now.Message, now.Started, now.Since, now.Deadline = v2.RunRunning, "", r.now().UTC(), r.now().UTC(), job.Deadline
		})
		if err != nil {
			return unlessEnded(own, err)
		}
		r.note(ctx, run, appcontext.Normal, v2.EventReasonWorkflowStarted, "")
	}
	if run.Cancel != "" {
		return r.end(ctx, runner, job, run, errCanceled)
	}
	return r.attempt(ctx, own, t, runner, job, run)
}

// attempt repeats a run until it succeeds, fails for good, is late, or is not wanted any longer.
//
// The record of the run comes first in each step: it has the number of an attempt before the attempt begins, and the time of the
// next one before the pause, so that another process can continue. ctx is the process's, own ends when the run is canceled or
// replaced, and timed also when the run is late: its cause is why the run ends early.
func (r *reconciler) attempt(ctx, own context.Context, t *runPermit, runner workflow.Runner, job workflow.Job, run appcontext.WorkflowRun) error {
	timed, stop := context.WithDeadlineCause(own, job.Deadline, errLate)
	defer stop()
	for pause := firstRetry; timed.Err() == nil; pause = min(2*pause, longestRetry) {
		var result string
		var err error
		run, err = r.change(timed, run, func(now *appcontext.WorkflowRun) { now.Attempt, now.Next = now.Attempt+1, time.Time{} })
		if err == nil && timed.Err() == nil {
			job.Attempt = run.Attempt
			result, err = runner.Run(timed, job)
		}
		switch {
		case timed.Err() != nil:
			continue // it ends early
		case err == nil:
			return r.finish(ctx, run, v2.RunSucceeded, "", result)
		case errors.Is(err, errReplaced):
			return nil
		case !errs.Is(err, errs.Unavailable) && !errs.Is(err, errs.Throttled):
			return r.finish(ctx, run, v2.RunFailed, err.Error(), result)
		}
		next := r.now().UTC().Add(pause)
		if run, err = r.change(timed, run, func(now *appcontext.WorkflowRun) { now.Message, now.Next = shortened(err.Error(), maxMessage), next }); err != nil {
			continue // the deadline, or the next attempt, decides
		}
		if job, err = r.pause(timed, pause, t, job, run); err != nil && timed.Err() == nil {
			return r.end(ctx, runner, job, run, err)
		}
	}
	return r.end(ctx, runner, job, run, context.Cause(timed))
}

// pause waits before the next attempt of a job, without its permit, which other runs can use meanwhile. It returns the job as its
// intent is then; with an error, the job as it was.
func (r *reconciler) pause(ctx context.Context, d time.Duration, t *runPermit, job workflow.Job, run appcontext.WorkflowRun) (workflow.Job, error) {
	t.yield()
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	if err := t.take(ctx); err != nil {
		return job, err
	}
	again, err := r.rereadJob(ctx, job, run)
	if err != nil {
		return job, err
	}
	return again, nil
}

// readJob returns what is to run. It waits while the documents cannot be read.
func (r *reconciler) readJob(ctx context.Context, run appcontext.WorkflowRun) (workflow.Runner, workflow.Job, error) {
	for {
		runner, job, err := r.jobOf(ctx, run)
		if err == nil || !errs.Is(err, errs.Unavailable) {
			return runner, job, err
		}
		select {
		case <-ctx.Done():
			return nil, workflow.Job{}, context.Cause(ctx)
		case <-time.After(recordPause):
		}
	}
}

// rereadJob returns a job as its intent is now. What the job did so far is still with its runner, so another runner
// counts for the next run.
func (r *reconciler) rereadJob(ctx context.Context, job workflow.Job, run appcontext.WorkflowRun) (workflow.Job, error) {
	_, again, err := r.readJob(ctx, run)
	if err == nil && again.Spec.RunnerName() != job.Spec.RunnerName() {
		return job, nil
	}
	return again, err
}

// end ends a run early. A process that stops leaves the record as it is: the next one continues.
func (r *reconciler) end(ctx context.Context, runner workflow.Runner, job workflow.Job, run appcontext.WorkflowRun, why error) error {
	if ctx.Err() != nil {
		return nil
	}
	now := run
	if errors.Is(why, errCanceled) {
		var err error
		if now, err = r.contexts.Run(ctx, run.UID, run.Name); err != nil && !errs.Is(err, errs.NotFound) {
			return err
		}
		job.Terminate = now.ID == run.ID && now.Terminate
	}
	bounded, stop := context.WithTimeout(ctx, cancelTimeout)
	defer stop()
	note := ""
	if err := runner.Cancel(bounded, job); err != nil {
		note = "; it may go on elsewhere: " + err.Error()
	}
	switch {
	case errors.Is(why, errReplaced), now.ID != run.ID:
		return nil
	case errors.Is(why, errCanceled):
		return r.finish(ctx, run, v2.RunCanceled, now.Cancel+note, "")
	}
	text := why.Error()
	if errors.Is(why, errLate) {
		text = fmt.Sprintf("it did not end within %s", job.Spec.Limit())
	}
	if run.Message != "" {
		text += "; the last error was: " + run.Message
	}
	return r.finish(ctx, run, v2.RunFailed, text+note, "")
}

// jobOf returns what is to run, from the intent as it is now.
func (r *reconciler) jobOf(ctx context.Context, run appcontext.WorkflowRun) (workflow.Runner, workflow.Job, error) {
	intent, hook := run.Name.Intent()
	collection := workflow.WorkflowCollection
	if hook {
		collection = workflow.HookCollection
	}
	doc, err := r.db.Get(ctx, store.Key(run.Group+"/"+collection+"/"+intent))
	if err != nil {
		return nil, workflow.Job{}, store.NotFoundAs(err, "the intent was deleted: "+intent)
	}
	spec, err := specOf(doc, run.Name)
	if err != nil {
		return nil, workflow.Job{}, err
	}
	runner, err := r.runners.Of(spec)
	if err == nil {
		err = runner.Admit(spec)
	}
	return runner, workflow.Job{
		ID: run.ID, Group: run.Group, Intent: intent, Hook: run.Hook, Revision: run.Rev, Deadline: run.Deadline, Spec: spec,
	}, err
}

// finish records the end of a run.
func (r *reconciler) finish(ctx context.Context, run appcontext.WorkflowRun, state, message, result string) error {
	set, err := r.change(ctx, run, func(now *appcontext.WorkflowRun) {
		now.State, now.Message, now.Result = state, shortened(message, maxMessage), shortened(result, maxResult)
		now.Since, now.Next, now.Cancel, now.Terminate = r.now().UTC(), time.Time{}, "", false
	})
	if err != nil {
		return unlessEnded(ctx, err)
	}
	kind := appcontext.Normal
	if workflow.Undecided(set) {
		kind = appcontext.Warning
	}
	r.note(ctx, set, kind, v2.WorkflowEventReason(state), set.Message)
	return nil
}

// unlessEnded drops the errors of a run that another one replaced, or that goes on in another process.
func unlessEnded(ctx context.Context, err error) error {
	if errors.Is(err, errReplaced) || errors.Is(err, appcontext.ErrFenced) || ctx.Err() != nil {
		return nil
	}
	return err
}

// change changes the record of a run while it is not over; errReplaced if it is, or if another run took its place.
// It waits while etcd does not answer.
func (r *reconciler) change(ctx context.Context, run appcontext.WorkflowRun, change func(now *appcontext.WorkflowRun)) (appcontext.WorkflowRun, error) {
	for {
		now, err := r.contexts.Run(ctx, run.UID, run.Name)
		switch {
		case errs.Is(err, errs.NotFound), err == nil && (now.ID != run.ID || !unfinished(now)):
			return run, errReplaced
		case err == nil:
			change(&now)
			if now, err = r.contexts.SetRun(ctx, now); err == nil {
				return now, nil
			}
		}
		switch {
		case errors.Is(err, appcontext.ErrOvertaken):
			continue
		case !errs.Is(err, errs.Unavailable) && !errs.Is(err, errs.Throttled):
			return run, err
		}
		select {
		case <-ctx.Done():
			return run, context.Cause(ctx)
		case <-time.After(recordPause):
		}
	}
}

// note adds a line to the event log. If it fails, only this line is lost.
func (r *reconciler) note(ctx context.Context, run appcontext.WorkflowRun, kind, reason, message string) {
	name, _ := run.Name.Intent()
	if run.Hook != "" {
		name += " (" + run.Hook + ")"
	}
	if message != "" {
		name += ": " + message
	}
	if err := r.contexts.AddEvents(ctx, appcontext.Event{UID: run.UID, Type: kind, Reason: reason, Message: name, Rev: run.Rev}); err != nil {
		r.log.Warn("cannot record an event", "deployment", run.UID, "err", err)
	}
}

// shortened returns the first part of a text, in one line that terminals can show.
func shortened(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "")))
}
