package rsync

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// carry has all that targets of one cluster hold committed in another place than before. It
// returns the commit by which the cluster reads it. What is outside of the deployments'
// directories, and of another backend, leaves with the same commit if it is the same branch.
func (s *gitSink) carry(ctx context.Context, due []pair.Target, d route.Route) (git.Hash, error) {
	var shares []share
	for _, t := range due {
		sh := share{target: t, pairs: s.ledger.Of(t), views: d.Settings.ViewOf(d.Target(t.Cluster, t.UID).Root())}
		plan, err := s.plan(ctx, t, d, sh.pairs)
		if err != nil {
			return "", err
		}
		sh.edits = plan.edits
		if d.Branch() == d.Move.From.Branch() {
			old, err := s.removal(t, d.Move.From)
			if err != nil {
				return "", err
			}
			sh.edits = append(sh.edits, apart(old, plan.edits)...)
		}
		shares = append(shares, sh)
	}
	job := s.job(d, shares)
	job.Title, job.Interactive = "Move "+due[0].Cluster+" here, from "+d.Move.From.Place(), true
	shown, _, err := s.submit(ctx, job)
	if err != nil || d.Settings.View == "" {
		return shown.Commit, err
	}
	return shown.Heads[d.Settings.View], nil
}

// clear has all that targets of one cluster held in their old place removed from there, and
// with it the branch that the cluster alone has read, if it reads another one now.
func (s *gitSink) clear(ctx context.Context, old []pair.Target, d route.Route) (git.Hash, error) {
	from, cluster := d.Move.From, pair.Target{Cluster: d.Move.Cluster}
	if d.Branch() == from.Branch() && d.Target(cluster.Cluster, "").Root() == from.Target(cluster.Cluster, "").Root() {
		return "", nil // that was done with the commit that wrote it
	}
	tags := trailers{}
	job := batch.Job{Repo: from.Settings.Repo, Branch: from.Settings.Branch, Propose: from.Settings.Propose, Interactive: true}
	for _, t := range old {
		edits, err := s.removal(t, from)
		if err != nil {
			return "", err
		}
		tags.note(t, nil)
		job.Edits = append(job.Edits, edits...)
	}
	if from.Settings.View != d.Settings.View && from.Settings.View != "" {
		job.RemoveDerived = []string{from.Settings.View}
	}
	if len(job.Edits)+len(job.RemoveDerived) == 0 {
		return "", nil
	}
	job.Title, job.Trailers = "Move "+cluster.Cluster+" away, to "+d.Place(), tags.list()
	shown, _, err := s.submit(ctx, job)
	if errs.Is(err, errs.Forbidden) && len(job.RemoveDerived) > 0 {
		s.log.Warn("the branch that a moved cluster has read is left behind", "cluster", cluster.Cluster, "branch", job.RemoveDerived[0], "err", err)
		job.RemoveDerived = nil
		shown, _, err = s.submit(ctx, job)
	}
	return shown.Commit, err
}

// removal is what takes a target away from a place.
func (s *gitSink) removal(t pair.Target, d route.Route) ([]git.Edit, error) {
	change, err := d.Backend.Plan(s.ledger.Address(t, d), nil)
	return change.Edits, err
}

// apart returns the edits that touch nothing that others edit.
func apart(edits, others []git.Edit) []git.Edit {
	return slices.DeleteFunc(slices.Clone(edits), func(e git.Edit) bool {
		return slices.ContainsFunc(others, func(o git.Edit) bool { return git.Inside(e.Path, o.Path) || git.Inside(o.Path, e.Path) })
	})
}
