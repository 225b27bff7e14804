package workflowmgr

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

const (
	statusInterval = 500 * time.Millisecond // between two looks at a status that changes all the time
	pollInterval   = 5 * time.Second        // between looks, while the mirror announces no changes or a store fails
)

// reconciler compares the runs of one deployment with its head and its status, again after each change.
type reconciler struct {
	*reconcilers
	uid     appcontext.HeadID
	changed chan struct{}
	sub     *mirror.Subscription
	jobs    sync.WaitGroup

	mu   sync.Mutex
	live map[appcontext.RunName]*execution // guarded by mu
}

func newReconciler(s *reconcilers, uid appcontext.HeadID, changed chan struct{}) *reconciler {
	return &reconciler{
		reconcilers: s, uid: uid, changed: changed, live: map[appcontext.RunName]*execution{},
		sub: s.mirror.Subscribe(mirror.Topics{Heads: []appcontext.HeadID{uid}}),
	}
}

// reconcileResult is what a comparison found.
type reconcileResult struct {
	done   bool          // nothing is under way, and nothing waits
	status bool          // a hook waits for the status
	topics mirror.Topics // what may lead to another look
}

// run compares until nothing is left to do, or ctx ends.
func (r *reconciler) run(ctx context.Context) {
	defer r.sub.Close()
	defer r.jobs.Wait()
	topics := mirror.Topics{Heads: []appcontext.HeadID{r.uid}}
	for ctx.Err() == nil {
		var now reconcileResult
		err := r.panics.Do(contain.Workflows, "deployment "+string(r.uid), func() (err error) {
			now, err = r.reconcile(ctx)
			return err
		})
		switch {
		case errors.Is(err, appcontext.ErrOvertaken):
			continue
		case err != nil && ctx.Err() == nil:
			r.log.Warn("cannot look at workflows; it is tried again", "deployment", r.uid, "err", err)
		case err == nil && now.done && r.leave(r.uid):
			return
		case err == nil && !now.topics.Equal(topics):
			topics = now.topics
			r.sub.Follow(topics)
			continue // it may have changed before the subscription covered these
		}
		r.await(ctx, err != nil, now.status)
	}
}

// await waits until a comparison may find something else.
func (r *reconciler) await(ctx context.Context, failed, status bool) {
	var poll, soon <-chan time.Time
	if failed || r.mirror.Behind() {
		poll = time.After(pollInterval)
	}
	select {
	case <-ctx.Done():
	case <-r.changed:
	case <-poll:
	case <-r.sub.Changed():
		if status {
			soon = time.After(statusInterval)
		}
	}
	if soon != nil {
		select {
		case <-ctx.Done():
		case <-soon:
		}
	}
}

// reconcile compares once.
func (r *reconciler) reconcile(ctx context.Context) (out reconcileResult, err error) {
	r.forgetEnded()
	head, runs, err := r.contexts.HeadAndRuns(ctx, r.uid)
	if err != nil {
		return out, err
	}
	out.topics.Heads = []appcontext.HeadID{r.uid}
	r.endOthers(runs)
	if err := r.replaceUnwanted(ctx, runs, head); err != nil {
		return out, err
	}
	before, after := phases(runs, head)
	next, err := r.advance(ctx, head, before, nil)
	if err != nil {
		return out, err
	}
	if next == nil && head != nil && head.Op != nil && head.Op.Hooks {
		if _, err := r.contexts.ChangeHeads(ctx, workflow.Release(*head, r.now().UTC())); err != nil {
			return out, err
		}
		return r.reconcile(ctx)
	}
	last, err := r.advance(ctx, head, after, func(run appcontext.WorkflowRun) (bool, error) { return r.proved(ctx, run) })
	if err != nil {
		return out, err
	}
	if out.status = last != nil && last.State == v2.RunWaiting; out.status {
		out.topics.Deployments = append(out.topics.Deployments, head.Deployment())
	}
	for _, run := range runs {
		if run.Hook == "" && unfinished(run) {
			r.start(ctx, run)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out.done = next == nil && last == nil && len(r.live) == 0
	return out, nil
}

// phases returns the hooks that the deployment still needs, before and after its action, in order of name.
func phases(runs []appcontext.WorkflowRun, head *appcontext.Head) (before, after []appcontext.WorkflowRun) {
	for _, run := range runs {
		switch {
		case run.Hook == "" || !workflow.Wanted(run, head):
		case workflow.Gates(run, head):
			before = append(before, run)
		case !v2.IsBefore(run.Hook):
			after = append(after, run)
		}
	}
	byName := func(a, b appcontext.WorkflowRun) int { return strings.Compare(string(a.Name), string(b.Name)) }
	slices.SortFunc(before, byName)
	slices.SortFunc(after, byName)
	return before, after
}

// advance starts the first hook that is not passed, once ready returns true for it. It returns that hook; nil if all are
// passed.
func (r *reconciler) advance(ctx context.Context, head *appcontext.Head, runs []appcontext.WorkflowRun, ready func(appcontext.WorkflowRun) (bool, error)) (*appcontext.WorkflowRun, error) {
	i := slices.IndexFunc(runs, func(run appcontext.WorkflowRun) bool { return !workflow.Passed(run, head) })
	if i < 0 {
		return nil, nil
	}
	next := &runs[i]
	may := unfinished(*next)
	if may && next.State == v2.RunWaiting && ready != nil {
		var err error
		if may, err = ready(*next); err != nil {
			return next, err
		}
	}
	if may {
		r.start(ctx, *next)
	}
	return next, nil
}

// proved reports whether the deployment stands as a hook after an action wants it.
func (r *reconciler) proved(ctx context.Context, run appcontext.WorkflowRun) (bool, error) {
	s, err := r.reader.Standing(ctx, r.uid)
	if err != nil || s.Head.Op != nil || !workflow.Wanted(run, &s.Head) {
		return false, err
	}
	if run.Hook == v2.PostTermination {
		return s.Deployed == v2.StatusTerminated, nil
	}
	return s.Deployed == v2.StatusInstantiated && (run.After == v2.AfterApplied || s.Ready == v2.Ready), nil
}

// unfinished reports whether a run waits or is under way.
func unfinished(run appcontext.WorkflowRun) bool {
	return run.State == v2.RunWaiting || run.State == v2.RunRunning
}

// replaceUnwanted ends the runs that the deployment no longer needs.
func (r *reconciler) replaceUnwanted(ctx context.Context, runs []appcontext.WorkflowRun, head *appcontext.Head) error {
	for i, run := range runs {
		const why = "the action that needed it has ended or was replaced"
		switch {
		case workflow.Passed(run, head) || workflow.Wanted(run, head) || run.State == v2.RunRunning && run.Cancel != "":
			if !workflow.Wanted(run, head) && run.State == v2.RunRunning {
				r.start(ctx, run) // it must be canceled, even if another process started it
			}
			continue
		case run.State == v2.RunRunning:
			run.Cancel = why
		default:
			run.State, run.Message, run.Since, run.Next = v2.RunReplaced, why, r.now().UTC(), time.Time{}
		}
		set, err := r.contexts.SetRun(ctx, run)
		if err != nil {
			return err
		}
		if runs[i] = set; set.State == v2.RunRunning {
			r.start(ctx, set)
		}
	}
	return nil
}
