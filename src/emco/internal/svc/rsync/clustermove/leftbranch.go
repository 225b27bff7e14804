package clustermove

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// registrationGrace is how long to wait for a cluster's deletion to finish.
const registrationGrace = time.Minute

// removeLeftBranch removes the branch that a deregistered cluster alone has read, unless
// others have written to it, or the cluster was registered again and reads it. It reports
// whether to try again.
func (m *Mover) removeLeftBranch(ctx context.Context, r gitstate.Relocation) (again bool) {
	again, err := m.tryRemoveLeftBranch(ctx, r)
	if err == nil || ctx.Err() != nil {
		return again
	}
	m.Log.Warn("the branch of a deregistered cluster was not removed", "cluster", r.Cluster, "err", err)
	if pair.Permanent(err) {
		return m.forget(ctx, r)
	}
	return true
}

func (m *Mover) tryRemoveLeftBranch(ctx context.Context, r gitstate.Relocation) (again bool, err error) {
	lookup := m.Routes.Lookup()
	old, err := lookup.Git(ctx, r.Cluster, v2.GitOps{
		Type: r.Left.Type, Reference: r.Left.Reference, Resource: r.Left.Resource,
		RefMode: r.Left.RefMode, Shard: r.Left.Shard, FanOut: r.Left.FanOut,
	})
	if err != nil {
		return false, err
	}
	if old.Shard() != m.Shard {
		return false, nil
	}
	now, err := lookup.Route(ctx, r.Cluster)
	switch {
	case err == nil && now.Registration == r.Registration && time.Since(r.At) < registrationGrace:
		return true, nil // its deletion has not finished
	case err == nil && (now.Registration == r.Registration || now.Settings.DerivedBranch == old.Settings.DerivedBranch):
		return m.forget(ctx, r), nil
	case err != nil && !errs.Is(err, errs.NotFound):
		return true, err
	}
	job := batch.Job{Repo: old.Settings.Repo, Branch: old.Settings.Branch, RemoveDerived: []string{old.Settings.DerivedBranch}, Interactive: true}
	job.Title = "Remove the branch of " + string(r.Cluster)
	derived, _, err := m.Git.Submit(ctx, job)
	if err != nil {
		return true, err
	}
	if len(derived.Removed) > 0 { // otherwise it did not exist, or others have written to it
		m.Log.Info("the branch of a deregistered cluster was removed", "cluster", r.Cluster, "repo", job.Repo.URL, "branch", old.Settings.DerivedBranch)
	}
	return m.forget(ctx, r), nil
}

// forget removes the record of a deregistered cluster. It reports whether to try again.
func (m *Mover) forget(ctx context.Context, r gitstate.Relocation) (again bool) {
	if err := m.Store.DropRelocation(ctx, m.Fence, r); err != nil && !errs.Is(err, errs.Conflict) {
		m.Log.Warn("the record of a deregistered cluster was not removed", "cluster", r.Cluster, "err", err)
		return ctx.Err() == nil
	}
	return false
}
