package branchguard

import (
	"context"

	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/trailers"
	"github.com/emco-orchestrator/emco/src/git"
)

// InspectOwn looks into commits of this shard that are not recorded. After a crash they carry
// revisions that the AppContext knows. A revision that it does not know means that it was restored
// from an older backup: then pairs may read Applied for files that the branch no longer holds, so
// everything on the branch is written again. The numbers of lost revisions are not given again.
func (g *Guard) InspectOwn(ctx context.Context, on route.Branch, commits []git.Commit) error {
	var found git.Commit
	var lost string
	for _, c := range commits {
		for _, carried := range trailers.Of(c) {
			if carried.Revision == 0 {
				continue
			}
			known, err := g.Knows(ctx, carried.Deployment, carried.Revision)
			if err == nil && !known {
				found, lost = c, carried.Text()
				err = g.SkipRevisions(ctx, carried.Deployment, carried.Revision)
			}
			if err != nil {
				return err
			}
		}
	}
	if lost == "" {
		return nil
	}
	return g.rewriteRestored(ctx, on, found, lost)
}

func (g *Guard) rewriteRestored(ctx context.Context, on route.Branch, c git.Commit, revision string) error {
	targets, err := g.targetsOn(ctx, on)
	if err == nil {
		err = g.Pairs.MarkUndelivered(ctx, targets)
	}
	if err != nil {
		return err
	}
	g.Log.Error("the AppContext is older than a branch: it was restored from a backup; everything on the branch is written again",
		"repo", on.URL, "branch", on.Name, "commit", c.ID, "revision", revision, "targets", len(targets))
	for _, t := range targets {
		g.RequeueLater(t) // ctx ends with the commit in progress
	}
	return nil
}
