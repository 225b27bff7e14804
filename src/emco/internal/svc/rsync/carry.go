package rsync

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// carry has all that targets of one cluster hold committed in another place than before. It
// returns the commit by which the cluster reads it. What is outside of the deployments'
// directories, and of another backend, leaves with the same commit if it is the same branch.
func (s *gitSink) carry(ctx context.Context, due []target, d destination) (git.Hash, error) {
	var shares []share
	for _, t := range due {
		sh := share{target: t, pairs: s.ledger.of(t), views: d.settings.ViewOf(at(t, d).Root())}
		plan, err := s.plan(ctx, t, d, sh.pairs)
		if err != nil {
			return "", err
		}
		sh.edits = plan.edits
		if sameBranch(d, d.leaves.destination) {
			old, err := s.removal(t, d.leaves.destination)
			if err != nil {
				return "", err
			}
			sh.edits = append(sh.edits, apart(old, plan.edits)...)
		}
		shares = append(shares, sh)
	}
	job := s.job(d, shares)
	job.Title, job.Interactive = "Move "+due[0].cluster+" here, from "+d.leaves.place(), true
	shown, _, err := s.submit(ctx, job)
	if err != nil || d.settings.View == "" {
		return shown.Commit, err
	}
	return shown.Heads[d.settings.View], nil
}

// clear has all that targets of one cluster held in their old place removed from there, and
// with it the branch that the cluster alone has read, if it reads another one now.
func (s *gitSink) clear(ctx context.Context, old []target, d destination) (git.Hash, error) {
	from, cluster := d.leaves.destination, target{cluster: d.leaves.cluster}
	if sameBranch(d, from) && at(cluster, d).Root() == at(cluster, from).Root() {
		return "", nil // that was done with the commit that wrote it
	}
	tags := trailers{}
	job := batch.Job{Repo: from.settings.Repo, Branch: from.settings.Branch, Propose: from.settings.Propose, Interactive: true}
	for _, t := range old {
		edits, err := s.removal(t, from)
		if err != nil {
			return "", err
		}
		tags.note(t, nil)
		job.Edits = append(job.Edits, edits...)
	}
	if from.settings.View != d.settings.View && from.settings.View != "" {
		job.RemoveDerived = []string{from.settings.View}
	}
	if len(job.Edits)+len(job.RemoveDerived) == 0 {
		return "", nil
	}
	job.Title, job.Trailers = "Move "+cluster.cluster+" away, to "+d.place(), tags.list()
	shown, _, err := s.submit(ctx, job)
	if errs.Is(err, errs.Forbidden) && len(job.RemoveDerived) > 0 {
		s.log.Warn("the branch that a moved cluster has read is left behind", "cluster", cluster.cluster, "branch", job.RemoveDerived[0], "err", err)
		job.RemoveDerived = nil
		shown, _, err = s.submit(ctx, job)
	}
	return shown.Commit, err
}

// removal is what takes a target away from a place.
func (s *gitSink) removal(t target, d destination) ([]git.Edit, error) {
	change, err := d.backend.Plan(s.ledger.address(t, d), nil)
	return change.Edits, err
}

func sameBranch(a, b destination) bool {
	return a.settings.Repo.URL == b.settings.Repo.URL && a.settings.Branch == b.settings.Branch
}

// apart returns the edits that touch nothing that others edit.
func apart(edits, others []git.Edit) []git.Edit {
	return slices.DeleteFunc(slices.Clone(edits), func(e git.Edit) bool {
		return slices.ContainsFunc(others, func(o git.Edit) bool { return git.Inside(e.Path, o.Path) || git.Inside(o.Path, e.Path) })
	})
}
