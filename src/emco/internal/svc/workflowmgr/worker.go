package workflowmgr

import (
	"context"
	"log/slog"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/workflow"
)

const (
	maxRuns      = 256 // that a process carries out at the same time; most of them wait for an answer
	maxOfProject = 16  // of these, of one project
)

// Few runs are under way at the same time, and the watch for them is small, so one process carries out all.
var workflowGroup = shards.Group{Kind: "workflows", Shards: 1}

// Worker carries out runs: it starts hooks when their turn comes, and lets the operations that waited for
// them go on. A run is recorded before it has an effect, so the next process continues it.
type Worker struct {
	db       *store.DB
	contexts *appcontext.Store
	reader   *statusview.Reader
	mirror   *mirror.Mirror
	runners  workflow.Runners
	panics   *contain.Panics
	shares   *fairshare.Shares // one permit per run under way, by project
	log      *slog.Logger
	now      func() time.Time
	group    *shards.Runner
}

// Parts are what a worker uses.
type Parts struct {
	DB       *store.DB
	Contexts *appcontext.Store
	Reader   *statusview.Reader // its answers decide when hooks run after an action
	Mirror   *mirror.Mirror     // signals changes of heads and reports
	Runners  workflow.Runners
	Panics   *contain.Panics
	Member   shards.Member
	Log      *slog.Logger
	Now      func() time.Time
}

// NewWorker returns a worker that joins the other processes as a member.
func NewWorker(p Parts) *Worker {
	w := &Worker{
		db: p.DB, contexts: p.Contexts, reader: p.Reader, mirror: p.Mirror, runners: p.Runners, panics: p.Panics, log: p.Log, now: p.Now,
		shares: fairshare.New(fairshare.Options{Permits: maxRuns, PerTenant: maxOfProject}),
	}
	w.group = p.Contexts.ShardRunner(workflowGroup, p.Member, w.runShard)
	return w
}

// Name is "workflows".
func (w *Worker) Name() string { return workflowGroup.Kind }

// Ready returns why runs are not carried out yet. A process is also ready if another process does it.
func (w *Worker) Ready() error { return w.group.Ready() }

// State describes whether this process carries out runs.
func (w *Worker) State() string { return w.group.String() }

// Run works until ctx ends, and waits for all that it started.
func (w *Worker) Run(ctx context.Context) error { return w.group.Run(ctx) }

// runShard follows the runs of all deployments until ctx ends.
func (w *Worker) runShard(ctx context.Context, _ int, own *shards.Ownership) error {
	s := &reconcilers{Worker: w, contexts: w.contexts.Fenced(own.Fence()), by: map[appcontext.HeadID]chan struct{}{}}
	defer s.running.Wait()
	if err := w.mirror.Await(ctx); err != nil { // the heads decide which of the stored runs still matter
		return err
	}
	for run, err := range s.contexts.WatchRuns(ctx) {
		if err != nil {
			w.log.Error("cannot read the run of a workflow", "deployment", run.UID, "run", run.Name, "err", err)
			continue
		}
		if run.UID == "" { // a key of something else was removed
			continue
		}
		s.wake(ctx, run)
	}
	return ctx.Err()
}

// reconcilers are one goroutine for each deployment that has something to carry out, or to wait for.
type reconcilers struct {
	*Worker
	contexts *appcontext.Store
	running  sync.WaitGroup

	mu sync.Mutex
	by map[appcontext.HeadID]chan struct{} // signals a change of a deployment's runs; guarded by mu
}

// wake has the runs of a deployment looked at after one of them changed.
func (s *reconcilers) wake(ctx context.Context, run appcontext.WorkflowRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uid := run.UID
	if c := s.by[uid]; c != nil {
		select {
		case c <- struct{}{}:
		default:
		}
		return
	}
	if s.isOver(run) {
		return
	}
	changed := make(chan struct{}, 1)
	s.by[uid] = changed
	s.running.Go(func() {
		r := newReconciler(s, uid, changed)
		r.run(ctx)
	})
}

// isOver reports whether a run gives no cause to look at its deployment, unless others do: it has ended, and
// no operation waits for it.
func (s *reconcilers) isOver(run appcontext.WorkflowRun) bool {
	switch {
	case run.Hook == "":
		return workflow.Passed(run, nil) || workflow.Undecided(run)
	case !v2.IsBefore(run.Hook):
		return workflow.Passed(run, nil)
	}
	head, known := s.mirror.HeadSince(run.UID, run.Mod) // a later operation with hooks writes their runs again
	return known && workflow.Passed(run, head) && !workflow.Gates(run, head)
}

// leave ends the goroutine of a deployment; false if there is something new.
func (s *reconcilers) leave(uid appcontext.HeadID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by[uid]) > 0 {
		return false
	}
	delete(s.by, uid)
	return true
}
