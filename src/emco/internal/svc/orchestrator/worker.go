package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/addon"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/readpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/quota"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/revision"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
)

const (
	maxOperations = 64 // of a process at the same time; most of them wait for the renderer
	maxOfProject  = 4  // of these, of one project
	maxAttempts   = 5  // for one operation, while a store or the renderer fails
)

// The workers of several processes share the operations, by deployment, and the sweep.
// Eight shards suffice for the few processes that render, and each shard costs a watch.
var (
	operatorGroup = shards.Group{Kind: "orchestrator", Shards: 8}
	sweeperGroup  = shards.Group{Kind: "sweep", Shards: 1}
)

// Worker executes operations: it places and renders apps, and publishes revisions. At any
// time one process executes the operations of a deployment.
type Worker struct {
	db       *store.DB
	contexts *appcontext.Store
	renderer render.Renderer
	planner  plan.Planner
	values   customize.Values // that patches fetch; nil: none
	placed   revision.Placed  // what clusters should hold; nil: not known
	quotas   quota.Checker
	reviewed func(ctx context.Context, head appcontext.Head) error // see Groups.reviewed
	log      *slog.Logger
	panics   *contain.Panics
	shares   *fairshare.Shares // one permit per running operation, by project
	addons   addon.Publishers
	tracer   *tracing.Tracer                                            // nil: nothing is traced
	witness  func(op appcontext.Operation, subject string, failed bool) // nil: none

	firstSweep time.Duration // after the start

	operations, sweep *shards.Runner
}

// NewWorker returns a worker that joins the other processes as member me.
func NewWorker(g *Groups, addons addon.Publishers, renderer render.Renderer, me shards.Member, panics *contain.Panics, log *slog.Logger) *Worker {
	w := &Worker{
		addons: addons, db: g.db, contexts: g.contexts, planner: g.planner, values: g.values, placed: g.placed, quotas: g.quotas, reviewed: g.reviewed, renderer: renderer, panics: panics, log: log, firstSweep: sweepSoon,
		shares: fairshare.New(fairshare.Options{Permits: maxOperations, PerTenant: maxOfProject}),
	}
	w.operations = g.contexts.ShardRunner(operatorGroup, me, w.runShard)
	w.sweep = g.contexts.ShardRunner(sweeperGroup, me, w.runSweep)
	return w
}

// WithWitness calls f for each operation that ended, with its document and whether it failed.
func (w *Worker) WithWitness(f func(op appcontext.Operation, subject string, failed bool)) *Worker {
	w.witness = f
	return w
}

// WithTracer has operations traced.
func (w *Worker) WithTracer(t *tracing.Tracer) *Worker {
	w.tracer = t
	return w
}

// WithFirstSweep has the first sweep wait for d after the start.
func (w *Worker) WithFirstSweep(d time.Duration) *Worker {
	w.firstSweep = d
	return w
}

// operationEnded notifies the witness that the operation of a head ended.
func (w *Worker) operationEnded(head appcontext.Head, failed bool) {
	if w.witness != nil && head.Op != nil {
		w.witness(*head.Op, head.Document, failed)
	}
}

// Name is "orchestrator".
func (w *Worker) Name() string { return operatorGroup.Kind }

// Ready returns why operations are not executed yet. A process is also ready if other
// processes own all shards.
func (w *Worker) Ready() error { return w.operations.Ready() }

// State describes the shards that this process owns.
func (w *Worker) State() string { return w.operations.String() }

// Run works until ctx ends. It owns all goroutines that it starts and waits for them.
func (w *Worker) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return w.operations.Run(ctx) })
	g.Go(func() error { return w.sweep.Run(ctx) })
	return g.Wait()
}

// runShard executes a shard's operations, both queued and new ones, until ctx ends. It waits
// for the operations that it started. An operation waits for a permit of its project: one
// project's operations do not keep those of the others from starting.
func (w *Worker) runShard(ctx context.Context, shard int, own *shards.Ownership) error {
	var running sync.WaitGroup
	defer running.Wait()
	contexts := w.contexts.Fenced(own.Fence())
	builder := revision.Builder{
		Contexts: contexts, Renderer: w.renderer, Blobs: contexts, Values: w.values, Placed: w.placed, Panics: w.panics,
		Admit: w.admit, Recipients: w.planner.Recipients, CheckRegistered: w.planner.CheckRegistered,
	}
	for op, err := range contexts.WatchOperations(ctx) {
		if operatorGroup.Of(string(op.UID)) != shard {
			continue
		}
		if err != nil {
			w.log.Error("cannot read operation", "deployment", op.UID, "op", op.ID, "err", err)
			continue
		}
		running.Go(func() {
			release, err := w.shares.Acquire(ctx, w.projectOf(ctx, contexts, op), fairshare.Fresh)
			if err != nil {
				return
			}
			defer release()
			w.execute(ctx, builder, op)
		})
	}
	return ctx.Err()
}

// projectOf returns the project of an operation; empty if it cannot be read, which execute
// will report.
func (w *Worker) projectOf(ctx context.Context, contexts *appcontext.Store, op appcontext.Operation) string {
	head, err := contexts.Head(ctx, op.UID)
	if err != nil {
		return ""
	}
	return store.Key(head.Document).Project()
}

// execute makes an operation's revision. It retries errors that may pass; errors that a
// retry cannot fix are recorded in the head.
func (w *Worker) execute(ctx context.Context, b revision.Builder, op appcontext.Operation) {
	log := w.log.With("deployment", op.UID, "rev", op.Rev, "op", op.ID)
	ctx, span := w.tracer.Continue(ctx, op.Traceparent, "operation "+op.Kind,
		slog.String("emco.deployment", string(op.UID)), slog.Int64("emco.revision", op.Rev), slog.String("emco.operation", op.ID))
	if span != nil {
		log = log.With("trace", span.Trace())
	}
	var err error
	defer func() { span.End(err) }()
	for attempt := 1; ctx.Err() == nil; attempt++ {
		err = w.panics.Do(contain.Orchestrator, "deployment "+string(op.UID), func() error { return w.try(readpoint.With(ctx), b, op, log) })
		switch {
		case err == nil:
			return
		case errs.Is(err, errs.Conflict): // the head has changed; whatever changed it decides what comes next
			log.Info("operation was superseded", "err", err)
			err = nil // it did not fail
			return
		case attempt >= maxAttempts || contain.Is(err):
			log.Error("operation failed", "err", err, "attempts", attempt)
			head, unrecorded := currentHead(ctx, b.Contexts, op)
			if unrecorded == nil {
				unrecorded = w.fail(ctx, b.Contexts, head, err)
			}
			if unrecorded != nil {
				log.Error("cannot record the failure", "err", unrecorded)
			}
			return
		}
		log.Warn("operation will be retried", "err", err, "attempt", attempt)
		_ = pause.For(ctx, time.Duration(attempt)*time.Second)
	}
}

// try publishes the operation's revision. Without an error the operation has ended: the
// revision is published, or the head has the reason why there is none. Conflict means that the head no
// longer waits for the operation. After any other error execute calls try again.
func (w *Worker) try(ctx context.Context, b revision.Builder, op appcontext.Operation, log *slog.Logger) error {
	start := time.Now()
	head, err := currentHead(ctx, b.Contexts, op)
	if err != nil {
		return err
	}
	doc, err := w.db.Get(ctx, store.Key(head.Document))
	if err == nil && appcontext.HeadID(doc.UID) != op.UID {
		err = errs.E(errs.NotFound, "read", head.Document, errors.New("it was deleted, and another one was created under its name"))
	}
	if err != nil {
		return w.recordPermanent(ctx, b.Contexts, head, err)
	}
	owner, isAddon := w.addons.Of(doc.Key)
	switch {
	case isAddon:
		_, err = owner.Publish(ctx, b.Contexts, head, doc)
	case head.Op.From > 0:
		policies, policyErr := w.planner.PoliciesOf(ctx, doc)
		if policyErr != nil {
			return w.recordPermanent(ctx, b.Contexts, head, policyErr)
		}
		_, err = b.Restore(ctx, head, policies)
	default:
		p, planErr := w.planner.Plan(ctx, doc, head.Deployment())
		if planErr == nil {
			planErr = p.CheckOutcome(head.Op, b.Renderer)
		}
		if planErr != nil {
			return w.recordPermanent(ctx, b.Contexts, head, planErr)
		}
		_, err = b.Publish(ctx, head, p)
	}
	if errs.Is(err, errs.Conflict) {
		return err
	}
	if err != nil {
		return w.recordPermanent(ctx, b.Contexts, head, err)
	}
	took := time.Since(start)
	w.operationEnded(head, false)
	log.Info("revision published", "took", took)
	if err := recordPublished(ctx, b.Contexts, *head.Op, took); err != nil {
		log.Warn("cannot record events", "err", err)
	}
	return nil
}

// admit refuses, as Invalid, a revision that would use more than its project may, or that has what nobody has reviewed.
func (w *Worker) admit(ctx context.Context, head appcontext.Head, next appcontext.Use) error {
	if err := w.quotas.Admit(ctx, head, next); err != nil {
		return err
	}
	return w.reviewed(ctx, head)
}

// currentHead returns the head of the operation's deployment; Conflict if the head no longer
// names this operation.
func currentHead(ctx context.Context, contexts *appcontext.Store, op appcontext.Operation) (appcontext.Head, error) {
	head, err := contexts.Head(ctx, op.UID)
	if errs.Is(err, errs.NotFound) || err == nil && (head.Op == nil || head.Op.ID != op.ID) {
		return head, errs.E(errs.Conflict, "execute", op.ID, errors.New("the deployment no longer waits for it"))
	}
	return head, err
}

// recordPermanent returns temporary errors, which are Internal, Unavailable and Throttled, so that
// execute tries again. It records all others in the head, which ends the operation.
func (w *Worker) recordPermanent(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, err error) error {
	switch errs.KindOf(err) {
	case errs.Internal, errs.Unavailable, errs.Throttled:
		return err
	}
	return w.fail(ctx, contexts, head, err)
}

// fail records why the head's operation failed. Once that is recorded it marks the span as failed, and notifies the witness.
func (w *Worker) fail(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, cause error) error {
	err := recordFailure(ctx, contexts, head, cause)
	if err == nil {
		tracing.Fail(ctx, cause)
		w.operationEnded(head, true)
	}
	return err
}

// recordFailure records why the head's operation failed. What a migration handed over keeps
// running and belongs to the group.
func recordFailure(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, cause error) error {
	to := head
	to.Op, to.Failure = nil, cause.Error()
	if errs.Is(cause, errs.Internal) && !contain.Is(cause) {
		to.Failure = "internal error; see the log of the orchestrator"
	}
	if head.TookOver() {
		to.Failure += "; what was taken over with the id " + string(head.Inherited) + " keeps running unchanged and belongs to this group"
	}
	m := appcontext.HeadChange{From: head, To: to}
	if head.Op != nil {
		m.Events = []appcontext.Event{{
			Type: appcontext.Warning, Reason: v2.EventReasonOperationFailed, Message: head.Op.Kind + ": " + to.Failure, Actor: head.Op.Actor, Rev: head.Op.Rev, Trace: tracing.ID(head.Op.Traceparent),
		}}
	}
	_, err := contexts.ChangeHeads(ctx, m)
	return err
}

// recordPublished adds a published revision and its failed apps to the event log. If it
// fails, only these entries are lost.
func recordPublished(ctx context.Context, contexts *appcontext.Store, op appcontext.Operation, took time.Duration) error {
	rev, err := contexts.DesiredRevision(ctx, op.UID, op.Rev) // just published
	if err != nil {
		return err
	}
	rendered := 0
	var failed []appcontext.Event
	for _, a := range rev.Apps {
		if rev.From == 0 && (a.Failure == nil || a.Failure.Stage == "rendering") {
			rendered++
		}
		if f := a.Failure; f != nil {
			message := f.Stage + ": " + f.Reason
			if f.File != "" {
				message = f.Stage + ": " + f.File + ": " + f.Reason
			}
			failed = append(failed, appcontext.Event{
				UID: op.UID, Type: appcontext.Warning, Reason: v2.EventReasonAppFailed, Message: message, Rev: op.Rev, App: a.Name, Trace: tracing.ID(op.Traceparent),
			})
		}
	}
	published := appcontext.Event{
		UID: op.UID, Type: appcontext.Normal, Reason: v2.EventReasonRevisionPublished, Actor: op.Actor, Rev: op.Rev, Trace: tracing.ID(op.Traceparent),
		Message: fmt.Sprintf("revision %d is desired; %d apps rendered in %.1f s", op.Rev, rendered, took.Seconds()),
	}
	return contexts.AddEvents(ctx, append([]appcontext.Event{published}, failed...)...)
}
