// Package shard brings the clusters of one shard to the state that heads ask for. It also
// holds what the shards of a process share: HeadFeed, RevisionCache and PairLoader. One
// change goes through it like this:
//
//	HeadFeed ─► headReconciler ─► pairs.SetDesired ─► Requeue ─► deliver ─► Record
//	 a head      what of it         the pairs that      by         Git,       the pairs
//	 changed     is new here        differ, in etcd     queue      kube       in etcd
//
// reconcile.go holds the first half, deliver.go the second. Both are level-triggered: they
// compare what is desired with what is recorded, so a crash anywhere is repaired by
// comparing again.
//
// Beside that path the shard starts what no shard has started (rechecks.go), tries targets
// again when their documents have changed (documents.go), notes in pairs what a slow delivery
// waits for (slow.go), and finds objects that several deployments place (overlaps.go).
package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	kubesink "github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/branchguard"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/clustermove"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/gitwriter"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/kubeapplier"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/platform"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/reportbatch"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Shared is what all shards of a process use.
type Shared struct {
	Contexts  *appcontext.Store
	Others    pairs.Others // nil: no pair waits for pairs of other shards
	Heads     Heads
	Revisions *RevisionCache
	Loader    *PairLoader
	Routes    *route.Resolver
	Content   *content.Reader
	Branches  *branchguard.Records
	Moves     *clustermove.Progress

	Git      gitwriter.Committer
	Kube     *kubesink.Sink
	Differ   branchguard.Differ // nil: edits by others are not looked for
	Interval time.Duration      // between two checks of a branch for edits; 0: only before commits
	Retry    pair.Retry

	ApplyPermits    *fairshare.Shares        // bounds the clusters that are applied to at the same time, by project
	Weight          func(project string) int // of a project's deliveries; nil: all are equal
	PlatformPermits chan struct{}            // bounds the clusters whose platforms are called at the same time

	Alone  func() bool // this process has all shards
	Panics *contain.Panics
	Tracer *tracing.Tracer // nil: nothing is traced
	Log    *slog.Logger
}

// Heads is where a shard sees what is desired.
type Heads interface {
	WatchHeads(ctx context.Context) iter.Seq2[appcontext.HeadEvent, error]
	Head(ctx context.Context, id appcontext.HeadID) (appcontext.Head, error)
	HeadsOf(deployment v2.DeploymentID) []appcontext.HeadID
	Recheck(id appcontext.HeadID)
}

// Shard is one term of owning a shard: New starts with nothing, and Stop leaves nothing
// running, timers included.
type Shard struct {
	Shared
	number   int
	contexts *appcontext.Store // with the shard's fence

	pairs         *pairs.Store
	queues        *queue.Workers             // deliveries: one worker for each branch, or cluster
	retries       *queue.Timers[pair.Target] // when targets are requeued
	unreachable   queue.Unreachable          // targets that wait for a repository to be reachable
	cancellations *queue.Cancellations       // of the work for a deployment

	plans      *content.StepPlans
	git        *gitwriter.Writer
	kube       *kubeapplier.Applier
	platforms  *platform.Registrar
	guard      *branchguard.Guard
	mover      *clustermove.Mover
	reports    *reportbatch.Batcher
	changed    *documentInbox
	overlaps   sharedObjects
	reconciler *headReconciler
}

// New returns a shard with nothing loaded. ctx is that of the term: all work of the
// shard ends with it.
func New(ctx context.Context, shared Shared, number int, fence appcontext.Fence, caughtUp func()) *Shard {
	shared.Log = shared.Log.With("shard", number)
	plans := content.NewStepPlans(shared.Content)
	s := &Shard{
		Shared: shared, number: number, contexts: shared.Contexts.Fenced(fence), cancellations: queue.NewCancellations(ctx),
		changed: newDocumentInbox(), plans: plans,
	}
	s.pairs = pairs.New(pairs.Config{
		AppContext: shared.Contexts, Fence: fence, Shard: route.Group.Shard(number), Retry: shared.Retry,
		NewWriter: func(stored *pairstore.Contents) pairs.PairWriter { return shared.Contexts.NewWriter(fence, stored) },
		Plans:     plans, Others: shared.Others, History: s.contexts, Log: shared.Log,
	})
	s.overlaps = sharedObjects{pairs: s.pairs, plans: plans, log: shared.Log}
	s.queues = queue.NewWorkers(s.deliverContained)
	s.retries = queue.NewTimers(func(t pair.Target) { s.Requeue(ctx, []pair.Target{t}) })
	s.reconciler = newHeadReconciler(s, caughtUp)
	s.reports = reportbatch.NewBatcher(ctx, s.handleReports, shared.Log)
	s.git = &gitwriter.Writer{
		Commits: shared.Git, Content: shared.Content, Plans: plans, Pairs: s.pairs, Branches: shared.Branches, Cancellations: s.cancellations, Weight: shared.Weight,
		Fence: batch.Fence{
			Shard: fence.Shard(), Token: fence.Token(),
			Check: func(ctx context.Context) error { return shared.Contexts.Holds(ctx, fence) },
		},
		StoreFence: fence, RecordCommit: s.recordCommit, Panics: shared.Panics, Tracer: shared.Tracer, Log: shared.Log,
	}
	s.kube = kubeapplier.NewApplier(ctx, kubeapplier.Options{
		Sink: shared.Kube, Content: shared.Content, Plans: plans, Pairs: s.pairs.Of, Cloud: s.pairs.Cloud,
		Permits: shared.ApplyPermits, Project: s.projectOf, Report: s.reports.Add, Panics: shared.Panics, Log: shared.Log,
	})
	s.platforms = platform.NewRegistrar(ctx, platform.Options{
		Permits: shared.PlatformPermits, Cancellations: s.cancellations, Address: s.pairs.Address,
		Open:   s.pairs.HasDeliverable,
		Record: s.Record,
	})
	s.guard = branchguard.New(branchguard.Options{
		Shard: number, Fence: fence, Routes: shared.Routes, Pairs: s.pairs, Records: shared.Branches, Submit: s.git.Submit, Knows: s.knows, SkipRevisions: s.skipRevisions,
		Differ: shared.Differ, Interval: shared.Interval, Requeue: s.Requeue,
		RequeueLater: func(t pair.Target) { s.retries.Set(t, 0) }, WriteEvents: s.writeEvents, Log: shared.Log,
	})
	s.git.InspectOwn = s.guard.InspectOwn
	if shared.Differ != nil {
		s.git.Inspect = s.guard.Inspect
	}
	s.mover = clustermove.New(clustermove.Options{
		Shard: number, Fence: fence, Store: s.contexts, Routes: shared.Routes, Pairs: s.pairs, Progress: shared.Moves, Git: s.git,
		Retry: shared.Retry, HoldRepairs: s.guard.HoldRepairs, HeadsOf: shared.Heads.HeadsOf,
		Recheck: s.reconciler.recheckWhole, Requeue: s.Requeue, RequeueAfter: s.retries.Set, Release: s.release, Log: shared.Log,
	})
	return s
}

// Run loads the shard's pairs, then follows heads, reports, gates, branches and moves. It
// ends with ctx, or when the shard can no longer write.
func (s *Shard) Run(ctx context.Context) error {
	stored, err := s.Loader.load(ctx, s.pairs.Shard())
	if err != nil {
		return err
	}
	if err := s.pairs.Load(ctx, stored); err != nil {
		return err
	}
	s.reports.Open()
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	others.Go(func() { s.pairs.RunGates(ctx, s.proceed) })
	others.Go(func() { s.guard.Run(ctx) })
	others.Go(func() { s.mover.Run(ctx) })
	others.Go(func() { s.followDocuments(ctx) })
	return s.reconciler.run(ctx)
}

// Stop waits for all work to end; the contexts of New and Run must have ended.
func (s *Shard) Stop() {
	s.reconciler.stopTimers()
	s.retries.Stop()
	s.queues.Wait()
	s.platforms.Stop()
	s.kube.Stop()
	s.reports.Wait()
}

// Report adds a report by an agent. The shard that has the pair stores it; others drop it.
func (s *Shard) Report(ctx context.Context, r appcontext.Report) { s.reports.Add(ctx, r) }

// OnBranch returns how many clusters the shard delivers to on a branch, and the sum of what numbers has for these.
func (s *Shard) OnBranch(b route.Branch, numbers map[v2.ClusterKey]int) (clusters, sum int) {
	return s.guard.Count(b, numbers)
}

// handleReports stores reports and requeues the targets that go on because of them.
func (s *Shard) handleReports(ctx context.Context, batch []appcontext.Report) error {
	due, err := s.storeReports(ctx, batch)
	s.proceed(ctx, due)
	return err
}

// proceed requeues targets whose pairs have changed, and stores what happened to them.
func (s *Shard) proceed(ctx context.Context, due []pair.Target) {
	s.Requeue(ctx, due)
	s.writeEvents(ctx)
}

// storeReports stores reports. A report that causes a panic is dropped, alone: the next one of
// its pair is tried again.
func (s *Shard) storeReports(ctx context.Context, batch []appcontext.Report) (due []pair.Target, err error) {
	err = s.Panics.Do(contain.Reports, fmt.Sprintf("%d reports, the first of %s", len(batch), batch[0].Key.Cluster), func() (err error) {
		due, err = s.pairs.Report(ctx, batch)
		return err
	})
	switch {
	case !contain.Is(err):
		return due, err
	case len(batch) == 1:
		return nil, nil
	}
	half := len(batch) / 2
	first, err := s.storeReports(ctx, batch[:half])
	rest, errOfRest := s.storeReports(ctx, batch[half:])
	return append(first, rest...), errors.Join(err, errOfRest)
}

// knows reports whether the head of a deployment knows a revision; no head knows none.
func (s *Shard) knows(ctx context.Context, deployment v2.DeploymentID, revision int64) (bool, error) {
	head, err := s.Heads.Head(ctx, s.headOf(deployment))
	if errs.Is(err, errs.NotFound) {
		return false, nil
	}
	return head.Knows(revision), err
}

// skipRevisions has the numbers of a deployment's next revisions begin above a lost one.
func (s *Shard) skipRevisions(ctx context.Context, deployment v2.DeploymentID, lost int64) error {
	return s.contexts.SkipRevisions(ctx, s.headOf(deployment), lost)
}

func (s *Shard) headOf(deployment v2.DeploymentID) appcontext.HeadID {
	if id, _ := s.pairs.Head(deployment); id != "" {
		return id
	}
	return appcontext.FirstHead(deployment)
}

// writeEvents stores what happened to pairs, for people. Events that cannot be stored are
// lost.
func (s *Shard) writeEvents(ctx context.Context) {
	events := s.pairs.TakeEvents(ctx)
	if len(events) == 0 {
		return
	}
	if err := s.contexts.AddEvents(ctx, events...); err != nil && ctx.Err() == nil {
		s.Log.Warn("events not stored", "err", err, "events", len(events))
	}
}

// recordCommit stores which commits carried a revision of a head.
func (s *Shard) recordCommit(ctx context.Context, head appcontext.HeadID, rev int64, commits ...appcontext.RevisionCommit) error {
	err := s.contexts.RecordCommit(ctx, head, rev, commits...)
	if err != nil && !errs.Is(err, errs.NotFound) { // a revision that is gone needs no commits
		s.Log.Warn("commits not recorded", "deployment", head, "rev", rev, "commits", len(commits), "err", err)
	}
	return err
}
