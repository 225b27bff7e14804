// Package branchguard watches over the branches that a shard writes: it finds edits by
// others and has them overwritten or held, carries out what operators decide about them and
// about rewritten history, and repairs the branches that single clusters read. It notices
// that the AppContext is older than a branch (InspectOwn), and knows which targets use
// which branch. Records is the only reader and writer of git/<hash> in rsync, except
// package api.
package branchguard

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Options are what a guard works with.
type Options struct {
	Shard    int
	Fence    appcontext.Fence
	Routes   *route.Resolver
	Pairs    Pairs
	Records  *Records
	Submit   func(ctx context.Context, job batch.Job) (git.DerivedResult, git.Hash, error)
	Differ   Differ        // nil: edits by others are not looked for
	Interval time.Duration // between two checks of a branch for edits; 0: only before commits

	// Knows reports whether the AppContext knows a revision of a deployment.
	Knows func(ctx context.Context, deployment v2.DeploymentID, revision int64) (bool, error)
	// SkipRevisions has the numbers of a deployment's next revisions begin above a lost one.
	SkipRevisions func(ctx context.Context, deployment v2.DeploymentID, lost int64) error

	Requeue      func(ctx context.Context, targets []pair.Target)
	RequeueLater func(t pair.Target) // when the commit in progress is done
	WriteEvents  func(ctx context.Context)
	Log          *slog.Logger
}

// Pairs are the pairs of the shard.
type Pairs interface {
	All() []pair.Target                     // in order
	On(cluster v2.ClusterKey) []pair.Target // in order
	Of(t pair.Target) []appcontext.Pair

	// NoteEdits stores edits by others with their pairs. It returns the targets that must be
	// delivered again, or that fail because their edits are held.
	NoteEdits(ctx context.Context, edits map[appcontext.PairKey]appcontext.ExternalEdit, held map[pair.Target]bool) ([]pair.Target, error)
	// ResolveEdits ends the hold on edits of targets: they are kept until the next delivery,
	// or overwritten.
	ResolveEdits(ctx context.Context, targets []pair.Target, keep bool) error
	// MarkUndelivered makes the pairs of targets due, also those that were delivered.
	MarkUndelivered(ctx context.Context, targets []pair.Target) error
}

// Guard watches over the branches of one shard.
type Guard struct {
	Options
	edits   *editFinder
	derived *derivedBranches
	users   *branchUsers
}

// New returns a guard that does nothing on its own before Run.
func New(o Options) *Guard {
	g := &Guard{Options: o, edits: &editFinder{Options: o}, derived: newDerivedBranches(o), users: newBranchUsers()}
	return g
}

// Run works until ctx ends. It owns four goroutines, and returns when they have ended.
func (g *Guard) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { g.followDecisions(ctx, "adopted history", g.Records.AwaitAdopted, g.writeAgain) })
	all.Go(func() { g.followDecisions(ctx, "decision about held edits", g.Records.AwaitResolution, g.resolveEdits) })
	all.Go(func() { g.checkBranches(ctx) })
	all.Go(func() { g.derived.run(ctx) })
}

// Inspect looks into commits by others on a branch before anything is written on top of
// them. It returns the paths that must not be overwritten. commits begins with the newest.
func (g *Guard) Inspect(ctx context.Context, repo git.Repo, on route.Branch, commits []git.Commit) (keep []string, err error) {
	return g.edits.inspect(ctx, repo, on, commits)
}

// Track notes on which branch a target is. A target that is moving is on the branch of its
// old place.
func (g *Guard) Track(t pair.Target, r route.Route) {
	if r.Role(g.Shard) != route.Deliver {
		if r.Move.From.Backend == nil {
			return
		}
		r = r.Move.From
	}
	if r.Backend != nil && !r.Settings.Published() {
		g.users.enter(t, r.Branch())
	}
	if r.Settings.DerivedBranch != "" {
		g.derived.start()
	}
}

// Count returns how many clusters have targets on a branch, and the sum of what numbers has for these.
func (g *Guard) Count(b route.Branch, numbers map[v2.ClusterKey]int) (clusters, sum int) {
	return g.users.count(b, numbers)
}

// Release notes that a target is gone. If it was the last one on its branch, the record of
// the branch is removed: what others do to it is no longer our concern.
func (g *Guard) Release(ctx context.Context, t pair.Target) {
	at, empty := g.users.leave(t)
	if !empty {
		return
	}
	if err := g.Records.Forget(ctx, g.Fence, at); err != nil {
		g.Log.Warn("the record of an unused branch was not removed", "repo", at.URL, "branch", at.Name, "err", err)
	}
}

// HoldRepairs delays repairs of derived branches until release is called. While a place in
// Git is cleared, a repair could copy the emptied place to the branch that a cluster reads.
func (g *Guard) HoldRepairs() (release func()) {
	g.derived.mu.Lock()
	return g.derived.mu.Unlock
}

// followDecisions carries out what operators decide about branches, until ctx ends. A
// decision that cannot be carried out is tried again.
func (g *Guard) followDecisions(ctx context.Context, what string, next func(ctx context.Context, shard int) (gitstate.Branch, bool), act func(context.Context, gitstate.Branch) error) {
	retry := pair.Retry{First: pair.FirstRetry, Longest: time.Minute}
	for attempt := 1; ; attempt++ {
		b, ok := next(ctx, g.Shard)
		if !ok {
			return
		}
		err := act(ctx, b)
		if err == nil {
			attempt = 0
			continue
		}
		if ctx.Err() == nil {
			g.Log.Warn("retrying to act on an "+what, "repo", b.URL, "branch", b.Name, "err", err)
		}
		_ = pause.For(ctx, retry.Backoff(attempt, err))
	}
}

// writeAgain makes everything on an adopted branch due. It first stores the pairs as
// undelivered, then marks the decision as carried out. A crash between the two repeats both.
func (g *Guard) writeAgain(ctx context.Context, b gitstate.Branch) error {
	at := branchOf(b)
	targets, err := g.targetsOn(ctx, at)
	if err != nil {
		return err
	}
	if err := g.Pairs.MarkUndelivered(ctx, targets); err != nil {
		return err
	}
	if err := g.Records.SetRewritten(ctx, g.Fence, at, b.Adopted); err != nil {
		return err
	}
	g.Log.Info("everything on an adopted branch is written again", "repo", b.URL, "branch", b.Name, "targets", len(targets))
	g.Requeue(ctx, targets)
	return nil
}

// resolveEdits carries out a decision about held edits.
func (g *Guard) resolveEdits(ctx context.Context, b gitstate.Branch) error {
	at := branchOf(b)
	targets, err := g.targetsOn(ctx, at)
	if err != nil {
		return err
	}
	if err := g.Pairs.ResolveEdits(ctx, targets, b.Keep); err != nil {
		return err
	}
	if err := g.Records.SetResolved(ctx, g.Fence, at, b.Decided); err != nil {
		return err
	}
	g.Requeue(ctx, targets)
	return nil
}

// targetsOn returns the shard's targets on a branch.
func (g *Guard) targetsOn(ctx context.Context, at route.Branch) (out []pair.Target, err error) {
	lookup := g.Routes.Lookup()
	for _, t := range g.Pairs.All() {
		r, err := lookup.Route(ctx, t.Cluster)
		switch {
		case errs.Is(err, errs.NotFound), errs.Is(err, errs.Invalid): // it is on no branch
		case err != nil:
			return nil, err
		case r.Backend != nil && at == r.Branch():
			out = append(out, t)
		}
	}
	return out, nil
}

// checkBranches checks all branches of the shard for edits by others, again and again until
// ctx ends: a job without edits costs one read, and more only where others have written.
func (g *Guard) checkBranches(ctx context.Context) {
	if g.Interval <= 0 || g.Differ == nil {
		return
	}
	for pause.For(ctx, g.Interval) == nil {
		lookup := g.Routes.Lookup()
		for on, t := range g.users.sample() {
			r, err := lookup.Route(ctx, t.Cluster)
			if err != nil || on != r.Branch() {
				continue
			}
			if _, _, err := g.Submit(ctx, batch.Job{Repo: r.Settings.Repo, Branch: on.Name}); err != nil && ctx.Err() == nil {
				g.Log.Debug("a branch cannot be checked", "repo", on.URL, "branch", on.Name, "err", err)
			}
		}
	}
}
