package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	maxOperations = 4 // operations of a process at the same time
	maxAttempts   = 5 // of one operation, when a store or the renderer is out of order
	keptRevisions = 10
	sweepPeriod   = time.Hour
	sweepRetry    = time.Minute // after a sweep that operations interrupted
)

// What the workers of several processes share: the operations, by deployment, and the
// sweep. Eight shards are enough for the few processes that rendering is spread over,
// and each costs a watch of the operations.
var (
	operatorTeam = appcontext.Team{Kind: "orchestrator", Shards: 8}
	sweeperTeam  = appcontext.Team{Kind: "sweep", Shards: 1}
)

// Worker carries out operations: it renders and places, and publishes revisions. Those
// of one deployment are carried out by one process at a time.
type Worker struct {
	db       *store.DB
	contexts *appcontext.Store
	renderer render.Renderer
	planner  revisionPlanner
	log      *slog.Logger
	slots    chan struct{} // bounds the operations at the same time

	operations, sweep *appcontext.Sharing
}

// NewWorker returns a worker that shares its work with the others as member me.
func NewWorker(g *Groups, renderer render.Renderer, me appcontext.Member, log *slog.Logger) *Worker {
	w := &Worker{
		db: g.db, contexts: g.contexts, planner: g.planner, renderer: renderer, log: log,
		slots: make(chan struct{}, maxOperations),
	}
	w.operations = g.contexts.Share(operatorTeam, me, w.runShard)
	w.sweep = g.contexts.Share(sweeperTeam, me, w.runSweep)
	return w
}

// Name is "orchestrator".
func (w *Worker) Name() string { return operatorTeam.Kind }

// Ready says why operations are not carried out yet. A process that has nothing to do,
// because others do it, is ready.
func (w *Worker) Ready() error { return w.operations.Ready() }

// State says which part of the work is this process'.
func (w *Worker) State() string { return w.operations.String() }

// Run works until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return w.operations.Run(ctx) })
	g.Go(func() error { return w.sweep.Run(ctx) })
	return g.Wait()
}

// runShard carries out a shard's operations, those that are queued and those that come.
func (w *Worker) runShard(ctx context.Context, shard int, own *appcontext.Ownership) error {
	var all sync.WaitGroup
	defer all.Wait()
	contexts := w.contexts.Fenced(own.Fence())
	for op, err := range contexts.WatchOperations(ctx) {
		if operatorTeam.Of(op.UID) != shard {
			continue
		}
		if err != nil {
			w.log.Error("operation cannot be read", "deployment", op.UID, "op", op.ID, "err", err)
			continue
		}
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		all.Go(func() {
			defer func() { <-w.slots }()
			w.execute(ctx, revisionBuilder{contexts: contexts, renderer: w.renderer, blobs: contexts}, op)
		})
	}
	return ctx.Err()
}

// execute makes one operation's revision. What cannot be done for a reason that
// trying again does not change is written into the head.
func (w *Worker) execute(ctx context.Context, b revisionBuilder, op appcontext.Operation) {
	log := w.log.With("deployment", op.UID, "rev", op.Rev, "op", op.ID)
	for attempt := 1; ctx.Err() == nil; attempt++ {
		err := w.try(ctx, b, op)
		switch {
		case err == nil:
			return
		case errs.Is(err, errs.Conflict): // the head has moved on; what moved it decides
			log.Info("operation overtaken", "err", err)
			return
		case attempt >= maxAttempts:
			w.giveUp(ctx, b.contexts, op, err)
			log.Error("operation given up", "err", err)
			return
		}
		log.Warn("operation tried again", "err", err, "attempt", attempt)
		pause(ctx, time.Duration(attempt)*time.Second)
	}
}

func (w *Worker) try(ctx context.Context, b revisionBuilder, op appcontext.Operation) error {
	head, err := currentHead(ctx, b.contexts, op)
	if err != nil {
		return err
	}
	doc, err := w.db.Get(ctx, store.Key(head.Subject))
	if err == nil && doc.UID != op.UID {
		err = errs.E(errs.NotFound, "read", head.Subject, errors.New("it was deleted, and made anew"))
	}
	if err != nil {
		return recordPermanent(ctx, b.contexts, head, err)
	}
	return w.makeRevision(ctx, b, head, doc)
}

// makeRevision publishes the revision that the operation is for, or records why there is none.
func (w *Worker) makeRevision(ctx context.Context, b revisionBuilder, head appcontext.Head, doc store.Doc) error {
	start := time.Now()
	publish := b.restore
	if head.Op.From == 0 {
		p, err := w.planner.plan(ctx, doc, head.Deployment())
		if err != nil {
			return recordPermanent(ctx, b.contexts, head, err)
		}
		publish = func(ctx context.Context, head appcontext.Head) (appcontext.Head, error) {
			return b.publish(ctx, head, p)
		}
	}
	next, err := publish(ctx, head)
	if errs.Is(err, errs.NotFound) || errs.Is(err, errs.Invalid) {
		return recordPermanent(ctx, b.contexts, head, err)
	}
	if err == nil {
		w.log.Info("revision published", "deployment", next.UID, "rev", next.Rev, "seconds", time.Since(start).Seconds())
		if unnoted := recordPublished(ctx, b.contexts, *head.Op, time.Since(start)); unnoted != nil {
			w.log.Warn("events lost", "deployment", next.UID, "err", unnoted)
		}
	}
	return err
}

// currentHead returns the operation's deployment; Conflict if it waits for another one by now.
func currentHead(ctx context.Context, contexts *appcontext.Store, op appcontext.Operation) (appcontext.Head, error) {
	head, err := contexts.Head(ctx, op.UID)
	if errs.Is(err, errs.NotFound) || err == nil && (head.Op == nil || head.Op.ID != op.ID) {
		return head, errs.E(errs.Conflict, "carry out", op.ID, errors.New("the deployment does not wait for it any more"))
	}
	return head, err
}

// recordPermanent settles an error that concerns the group as a whole: what users can
// mend is written into the head, everything else is handed back to be tried again.
func recordPermanent(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, err error) error {
	switch errs.KindOf(err) {
	case errs.Internal, errs.Unavailable, errs.Throttled:
		return err
	}
	return recordFailure(ctx, contexts, head, err)
}

func (w *Worker) giveUp(ctx context.Context, contexts *appcontext.Store, op appcontext.Operation, cause error) {
	head, err := currentHead(ctx, contexts, op)
	if err == nil {
		err = recordFailure(ctx, contexts, head, cause)
	}
	if err != nil {
		w.log.Error("failure not recorded", "deployment", op.UID, "err", err)
	}
}

// runSweep removes what nothing refers to any more, now and then. A sweep that operations
// interrupted is taken up again soon.
func (w *Worker) runSweep(ctx context.Context, _ int, own *appcontext.Ownership) error {
	contexts, wait := w.contexts.Fenced(own.Fence()), sweepPeriod
	for pause(ctx, wait) {
		wait = sweepPeriod
		if err := contexts.SweepAgents(ctx, w.registered); err != nil {
			w.log.Warn("sweep of agents", "err", err)
		}
		switch err := contexts.Sweep(ctx, keptRevisions); {
		case errors.Is(err, appcontext.ErrFenced):
			return err
		case errs.Is(err, errs.Conflict):
			wait = sweepRetry
		case err != nil:
			w.log.Warn("sweep of the AppContext", "err", err)
		}
	}
	return ctx.Err()
}

// registered reports whether there is a cluster of that name, "<provider>+<cluster>".
func (w *Worker) registered(ctx context.Context, name string) (bool, error) {
	provider, cluster, _ := strings.Cut(name, "+")
	_, err := w.db.Get(ctx, store.Key("cluster-providers/"+provider+"/clusters/"+cluster))
	if errs.Is(err, errs.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// pause waits; false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// processors bounds the renderings of one operation.
func processors() int { return max(runtime.NumCPU(), 2) }
