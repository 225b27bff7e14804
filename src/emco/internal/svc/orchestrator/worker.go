package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	shard       = "orchestrator" // what the worker owns while it works
	ownership   = 10 * time.Second
	parallel    = 4 // operations at the same time
	attempts    = 5 // of one operation, when a store or the renderer is out of order
	keep        = 10
	sweepPeriod = time.Hour
)

// Worker carries out operations: it renders and places, and publishes revisions. One
// process at a time does so; the others wait for their turn.
type Worker struct {
	db       *store.DB
	contexts *appcontext.Store
	renderer render.Renderer
	planner  planner
	holder   string
	log      *slog.Logger

	busy   sync.RWMutex // held for reading by operations, for writing by the sweep
	status ownerStatus
}

// NewWorker returns a worker that calls itself holder. A process that is started
// again under the same name takes over at once what it owned before.
func NewWorker(g *Groups, renderer render.Renderer, holder string, log *slog.Logger) *Worker {
	return &Worker{db: g.db, contexts: g.contexts, planner: g.planner, renderer: renderer, holder: holder, log: log}
}

// Name is "orchestrator".
func (w *Worker) Name() string { return shard }

// Ready says so when the stores have not been reached yet.
func (w *Worker) Ready() error { return w.status.ready() }

// Run works until ctx ends. When the ownership is lost it waits for it anew.
func (w *Worker) Run(ctx context.Context) error {
	w.status.reach()
	for ctx.Err() == nil {
		if err := w.term(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("orchestrator starts anew", "err", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

// term is one time of ownership.
func (w *Worker) term(ctx context.Context) error {
	own, err := w.contexts.Own(ctx, shard, w.holder, ownership)
	if err != nil {
		return err
	}
	defer func() { _ = own.Release(context.WithoutCancel(ctx)) }()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return lost(ctx, own) })
	contexts := w.contexts.Fenced(own.Fence())
	g.Go(func() error { return w.sweeps(ctx, contexts) })
	g.Go(func() error { return w.operations(ctx, contexts) })
	return g.Wait()
}

func lost(ctx context.Context, own *appcontext.Ownership) error {
	select {
	case <-ctx.Done():
		return nil
	case <-own.Lost():
		return errors.New("ownership was lost")
	}
}

// operations carries out what is queued and what comes, a few at a time.
func (w *Worker) operations(ctx context.Context, contexts *appcontext.Store) error {
	var g errgroup.Group
	g.SetLimit(parallel)
	defer func() { _ = g.Wait() }()
	for op, err := range contexts.WatchOperations(ctx) {
		if err != nil {
			w.log.Error("operation cannot be read", "deployment", op.UID, "op", op.ID, "err", err)
			continue
		}
		g.Go(func() error {
			w.carryOut(ctx, builder{contexts: contexts, renderer: w.renderer, contents: contexts}, op)
			return nil
		})
	}
	return ctx.Err()
}

// carryOut makes one operation's revision. What cannot be done for a reason that
// trying again does not change is written into the head.
func (w *Worker) carryOut(ctx context.Context, b builder, op appcontext.Operation) {
	w.busy.RLock()
	defer w.busy.RUnlock()
	log := w.log.With("deployment", op.UID, "rev", op.Rev, "op", op.ID)
	for attempt := 1; ctx.Err() == nil; attempt++ {
		err := w.try(ctx, b, op)
		switch {
		case err == nil:
			return
		case errs.Is(err, errs.Conflict): // the head has moved on; what moved it decides
			log.Info("operation overtaken", "err", err)
			return
		case attempt >= attempts:
			w.giveUp(ctx, b.contexts, op, err)
			log.Error("operation given up", "err", err)
			return
		}
		log.Warn("operation tried again", "err", err, "attempt", attempt)
		pause(ctx, time.Duration(attempt)*time.Second)
	}
}

func (w *Worker) try(ctx context.Context, b builder, op appcontext.Operation) error {
	head, err := current(ctx, b.contexts, op)
	if err != nil {
		return err
	}
	doc, err := w.db.Get(ctx, store.Key(head.Subject))
	if err == nil && doc.UID != op.UID {
		err = errs.E(errs.NotFound, "read", head.Subject, errors.New("it was deleted, and made anew"))
	}
	if err != nil {
		return concerning(ctx, b.contexts, head, err)
	}
	return w.make(ctx, b, head, doc)
}

// make publishes the revision that the operation is for, or records why there is none.
func (w *Worker) make(ctx context.Context, b builder, head appcontext.Head, doc store.Doc) error {
	start := time.Now()
	publish := b.restore
	if head.Op.From == 0 {
		p, err := w.planner.plan(ctx, doc, head.Deployment())
		if err != nil {
			return concerning(ctx, b.contexts, head, err)
		}
		publish = func(ctx context.Context, head appcontext.Head) (appcontext.Head, error) {
			return b.publish(ctx, head, p)
		}
	}
	next, err := publish(ctx, head)
	if errs.Is(err, errs.NotFound) || errs.Is(err, errs.Invalid) {
		return concerning(ctx, b.contexts, head, err)
	}
	if err == nil {
		w.log.Info("revision published", "deployment", next.UID, "rev", next.Rev, "seconds", time.Since(start).Seconds())
		if unnoted := published(ctx, b.contexts, *head.Op, time.Since(start)); unnoted != nil {
			w.log.Warn("events lost", "deployment", next.UID, "err", unnoted)
		}
	}
	return err
}

// current returns the operation's deployment; Conflict if it waits for another one by now.
func current(ctx context.Context, contexts *appcontext.Store, op appcontext.Operation) (appcontext.Head, error) {
	head, err := contexts.Head(ctx, op.UID)
	if errs.Is(err, errs.NotFound) || err == nil && (head.Op == nil || head.Op.ID != op.ID) {
		return head, errs.E(errs.Conflict, "carry out", op.ID, errors.New("the deployment does not wait for it any more"))
	}
	return head, err
}

// concerning settles an error that concerns the group as a whole: what users can
// mend is written into the head, everything else is handed back to be tried again.
func concerning(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, err error) error {
	switch errs.KindOf(err) {
	case errs.Internal, errs.Unavailable, errs.Throttled:
		return err
	}
	return fail(ctx, contexts, head, err)
}

func (w *Worker) giveUp(ctx context.Context, contexts *appcontext.Store, op appcontext.Operation, cause error) {
	head, err := current(ctx, contexts, op)
	if err == nil {
		err = fail(ctx, contexts, head, cause)
	}
	if err != nil {
		w.log.Error("failure not recorded", "deployment", op.UID, "err", err)
	}
}

// sweeps removes what nothing refers to any more, now and then, while no operation runs.
func (w *Worker) sweeps(ctx context.Context, contexts *appcontext.Store) error {
	for pause(ctx, sweepPeriod) {
		w.busy.Lock()
		err := contexts.Sweep(ctx, keep)
		w.busy.Unlock()
		if err != nil && !errs.Is(err, errs.Conflict) { // an operation came: the next sweep will do
			w.log.Warn("sweep of the AppContext", "err", err)
		}
	}
	return nil
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

// ownerStatus says whether Run has begun.
type ownerStatus struct {
	mu      sync.Mutex
	reached bool
}

func (s *ownerStatus) reach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reached = true
}

func (s *ownerStatus) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reached {
		return errors.New("not started")
	}
	return nil
}

// processors bounds the renderings of one operation.
func processors() int { return max(runtime.NumCPU(), 2) }
