package gitwriter

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// Carry commits everything that targets of one cluster hold to the cluster's new place. It
// returns the commit where the cluster reads it. If the old place is the same directory of the same branch,
// this commit also removes what only the old backend has there, such as its pointer files. Otherwise the old place stays until Clear:
// the cluster may still read it.
func (w *Writer) Carry(ctx context.Context, due []pair.Target, r route.Route) (git.Hash, error) {
	var parts []contribution
	for _, t := range due {
		pairs := w.Pairs.AppendOf(nil, t)
		c := contribution{target: t, about: summaryOf(pairs), derived: derivedOf(t, r)}
		plan, err := w.plan(ctx, t, r, pairs)
		if err != nil {
			return "", err
		}
		c.edits = plan.edits
		if staysInPlace(r) {
			removal, err := w.removal(t, r.Move.From)
			if err != nil {
				return "", err
			}
			c.edits = append(c.edits, disjoint(removal, plan.edits)...)
		}
		parts = append(parts, c)
	}
	job := w.job(r, parts)
	job.Title, job.Interactive = "Move "+string(due[0].Cluster)+" here, from "+r.Move.From.Place(), true
	derived, _, err := w.Submit(ctx, job)
	if err != nil || r.Settings.DerivedBranch == "" {
		return derived.Commit, err
	}
	return derived.Heads[r.Settings.DerivedBranch], nil
}

// Clear removes everything that targets of one cluster held from their old place, and with
// it the branch that the cluster alone has read, if it reads another one now.
func (w *Writer) Clear(ctx context.Context, old []pair.Target, r route.Route) (git.Hash, error) {
	from, cluster := r.Move.From, r.Move.Cluster
	if staysInPlace(r) {
		return "", nil // Carry did that
	}
	trailers := trailerSet{}
	job := batch.Job{Repo: from.Settings.Repo, Branch: from.Settings.Branch, Propose: from.Settings.Propose, Interactive: true}
	for _, t := range old {
		edits, err := w.removal(t, from)
		if err != nil {
			return "", err
		}
		trailers.addTarget(t, pairsSummary{})
		job.Edits = append(job.Edits, edits...)
	}
	if from.Settings.DerivedBranch != r.Settings.DerivedBranch && from.Settings.DerivedBranch != "" {
		job.RemoveDerived = []string{from.Settings.DerivedBranch}
	}
	if len(job.Edits)+len(job.RemoveDerived) == 0 {
		return "", nil
	}
	job.Title, job.Trailers = "Move "+string(cluster)+" away, to "+r.Place(), trailers.list()
	derived, _, err := w.Submit(ctx, job)
	if errs.Is(err, errs.Forbidden) && len(job.RemoveDerived) > 0 {
		w.Log.Warn("the branch of a moved cluster cannot be removed and stays", "cluster", cluster, "branch", job.RemoveDerived[0], "err", err)
		job.RemoveDerived = nil
		derived, _, err = w.Submit(ctx, job)
	}
	return derived.Commit, err
}

// staysInPlace reports whether the old place of a cluster and its new one are the same directory of the same branch.
func staysInPlace(r route.Route) bool {
	from, cluster := r.Move.From, r.Move.Cluster
	return r.Branch() == from.Branch() && r.Target(cluster, "").Root() == from.Target(cluster, "").Root()
}

// removal returns the edits that remove a target from a place.
func (w *Writer) removal(t pair.Target, r route.Route) ([]git.Edit, error) {
	change, err := r.Backend.Plan(w.Pairs.Address(t, r), nil)
	return change.Edits, err
}

// disjoint returns the edits whose paths others do not touch.
func disjoint(edits, others []git.Edit) []git.Edit {
	return slices.DeleteFunc(slices.Clone(edits), func(e git.Edit) bool {
		return slices.ContainsFunc(others, func(o git.Edit) bool { return git.Inside(e.Path, o.Path) || git.Inside(o.Path, e.Path) })
	})
}
