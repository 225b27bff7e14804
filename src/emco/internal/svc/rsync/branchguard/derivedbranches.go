package branchguard

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// repairInterval is the time between two checks of derived branches.
const repairInterval = 5 * time.Minute

// derivedBranches repairs the branches that single clusters read. Such a branch is derived from
// the branch that we write, and moves with each commit. One that others have moved or
// removed, or that a server could not move, is repaired by the next commit for its cluster
// or by the next check, whichever comes first.
type derivedBranches struct {
	Options
	started chan struct{} // holds a token after start
	// mu guards no data. It is held while branches are repaired, which waits for Git, and from
	// Guard.HoldRepairs until clustermove calls the release function that it gets.
	mu sync.Mutex
}

func newDerivedBranches(o Options) *derivedBranches {
	return &derivedBranches{Options: o, started: make(chan struct{}, 1)}
}

// start begins the checks: a cluster with a branch of its own exists.
func (c *derivedBranches) start() {
	select {
	case c.started <- struct{}{}:
	default:
	}
}

// run checks the derived branches of the shard from the first start on, until ctx ends.
func (c *derivedBranches) run(ctx context.Context) {
	select {
	case <-c.started:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		c.repairAll(ctx)
		_ = pause.For(ctx, repairInterval)
	}
}

func (c *derivedBranches) repairAll(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, group := range c.groups(ctx) {
		if err := c.repair(ctx, group); err != nil && ctx.Err() == nil {
			c.Log.Warn("derived branches cannot be checked", "repo", at.URL, "branch", at.Name, "err", err)
		}
	}
}

// branchGroup is the derived branches that are derived from one branch.
type branchGroup struct {
	job     batch.Job
	readers map[string][]pair.Target // by derived branch
}

// groups returns the derived branches of the shard by the branch that they are derived from.
func (c *derivedBranches) groups(ctx context.Context) map[route.Branch]branchGroup {
	lookup, out := c.Routes.Lookup(), map[route.Branch]branchGroup{}
	for _, t := range c.Pairs.All() {
		r, err := lookup.Route(ctx, t.Cluster)
		if err != nil || r.Settings.DerivedBranch == "" || r.Role(c.Shard) != route.Deliver { // deliveries report what cannot be found
			continue
		}
		g, known := out[r.Branch()]
		if !known {
			g = branchGroup{job: batch.Job{Repo: r.Settings.Repo, Branch: r.Settings.Branch}, readers: map[string][]pair.Target{}}
		}
		name := r.Settings.DerivedBranch
		if len(g.readers[name]) == 0 {
			g.job.Derived = append(g.job.Derived, r.Settings.DerivedBranches(r.Target(t.Cluster, t.Deployment).Root())...)
		}
		g.readers[name] = append(g.readers[name], t)
		out[r.Branch()] = g
	}
	return out
}

// repair moves derived branches to where they must be. The readers of one that had to be
// repaired are delivered again: the commit that is stored for them may not be in its history.
func (c *derivedBranches) repair(ctx context.Context, g branchGroup) error {
	derived, _, err := c.Submit(ctx, g.job)
	if err != nil {
		return err
	}
	repaired := slices.Concat(derived.Created, derived.Diverged)
	if len(repaired) == 0 {
		return nil
	}
	var readers []pair.Target
	for _, name := range repaired {
		readers = append(readers, g.readers[name]...)
	}
	c.Log.Warn("derived branches were repaired that others had changed or removed", "repo", g.job.Repo.URL, "of", g.job.Branch, "branches", len(repaired), "first", repaired[0])
	if err := c.Pairs.MarkUndelivered(ctx, readers); err != nil {
		return errs.E(errs.Unavailable, "redeliver", "derived branches", err)
	}
	c.Requeue(ctx, readers)
	return nil
}
