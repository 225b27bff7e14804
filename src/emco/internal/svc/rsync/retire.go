package rsync

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// A cluster that is deregistered leaves its branch behind, if it had one that it alone has
// read. It is removed, unless somebody has put something else there, or the cluster is
// registered again and reads it anew.

// goodbye is how long it is waited for a registration to go of which it was said that it does.
const goodbye = time.Minute

// retire removes what a cluster has left behind. It reports whether to try again.
func (d *dispatcher) retire(ctx context.Context, r appcontext.Relocation) (pending bool) {
	pending, err := d.tryRetire(ctx, r)
	if err == nil || ctx.Err() != nil {
		return pending
	}
	d.log.Warn("the branch of a cluster that was deregistered is still there", "cluster", r.Cluster, "err", err)
	if !pair.Permanent(err) {
		return true
	}
	return d.forgetMove(ctx, r) // nothing that is tried again will help
}

func (d *dispatcher) tryRetire(ctx context.Context, r appcontext.Relocation) (pending bool, err error) {
	trip := d.gateway.Lookup()
	c := v2.Cluster{}
	c.Spec.GitOps = v2.GitOps{
		Type: r.Left.Type, Reference: r.Left.Reference, Resource: r.Left.Resource,
		RefMode: r.Left.RefMode, Shard: r.Left.Shard, FanOut: r.Left.FanOut,
	}
	old, err := trip.Git(ctx, r.Cluster, c.Spec.GitOps)
	if err != nil {
		return false, err
	}
	if old.Shard() != d.shard {
		return false, nil // its shard sees to it
	}
	now, err := trip.Route(ctx, r.Cluster)
	switch {
	case err == nil && now.Registration == r.Registration && time.Since(r.At) < goodbye:
		return true, nil
	case err == nil && (now.Registration == r.Registration || now.Settings.View == old.Settings.View):
		return d.forgetMove(ctx, r), nil
	case err != nil && !errs.Is(err, errs.NotFound):
		return true, err
	}
	job := batch.Job{Repo: old.Settings.Repo, Branch: old.Settings.Branch, RemoveDerived: []string{old.Settings.View}, Interactive: true}
	job.Title = "Remove the branch of " + r.Cluster
	shown, _, err := d.git.submit(ctx, job)
	if err != nil {
		return true, err
	}
	if len(shown.Removed) == 0 {
		return d.forgetMove(ctx, r), nil // it was not there, or holds what somebody else has put there
	}
	d.log.Info("the branch of a cluster that was deregistered is removed", "cluster", r.Cluster, "repo", job.Repo.URL, "branch", old.Settings.View)
	return d.forgetMove(ctx, r), nil
}

// forgetMove forgets that something was left behind. It reports whether to try again.
func (d *dispatcher) forgetMove(ctx context.Context, r appcontext.Relocation) (pending bool) {
	if err := d.contexts.DropRelocation(ctx, d.ledger.Fence(), r); err != nil && !errs.Is(err, errs.Conflict) {
		d.log.Warn("what a cluster left behind is not forgotten", "cluster", r.Cluster, "err", err)
		return ctx.Err() == nil
	}
	return false
}
