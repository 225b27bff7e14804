package batch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// derivedOf returns the derived branches of jobs in order, without duplicates; of two with one name
// the later job wins.
func derivedOf(reqs []*jobRequest) []git.DerivedBranch {
	byBranch := map[string]git.DerivedBranch{}
	for _, r := range reqs {
		for _, v := range r.job.Derived {
			byBranch[v.Branch] = v
		}
	}
	return slices.SortedFunc(maps.Values(byBranch), func(a, b git.DerivedBranch) int { return cmp.Compare(a.Branch, b.Branch) })
}

// checkRemoved refuses to remove names that no derived branch can have, and the branch that is
// written.
func checkRemoved(j Job) error {
	for _, name := range j.RemoveDerived {
		if err := git.CheckBranch(name); err != nil {
			return err
		}
		if name == j.Branch {
			return errs.E(errs.Invalid, "remove", "branch "+name, errors.New("the same commit writes it"))
		}
	}
	return nil
}

// removedOf returns the derived branches to remove, without those that other jobs of the commit
// need.
func removedOf(reqs []*jobRequest, shown []git.DerivedBranch) (out []string) {
	for _, r := range reqs {
		for _, name := range r.job.RemoveDerived {
			if !slices.ContainsFunc(shown, func(v git.DerivedBranch) bool { return v.Branch == name }) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// write makes the commit and updates derived branches.
func (t *commitAttempt) write(ctx context.Context, parent git.Hash) (git.Hash, error) {
	host, branch := t.queue.owner.host, t.queue.key.branch
	if len(t.derived)+len(t.removeDerived) == 0 {
		return host.Commit(ctx, t.repo, branch, parent, t.edits, t.message)
	}
	writer, ok := host.(git.DerivedWriter)
	if !ok {
		return "", errs.E(errs.Invalid, "derive", t.repo.URL, errors.New("this host has no derived branches"))
	}
	shown, err := writer.CommitDerived(ctx, t.repo, git.DerivedUpdate{Branch: branch, Parent: parent, Edits: t.edits, Derived: t.derived, Remove: t.removeDerived, Message: t.message})
	if err == nil {
		shown.Created = append(t.derivedResult.Created, shown.Created...) // an earlier try counts
		shown.Removed = append(t.derivedResult.Removed, shown.Removed...)
		shown.Diverged = append(t.derivedResult.Diverged, shown.Diverged...)
		t.derivedResult = shown
	}
	return shown.Commit, err
}

// reportDerived reports derived branches to their jobs, and logs those that others had changed.
func (t *commitAttempt) reportDerived(ctx context.Context, reqs []*jobRequest) {
	for _, branch := range t.derivedResult.Diverged {
		if slices.Contains(t.removeDerived, branch) {
			t.queue.owner.opt.Log.LogAttrs(ctx, slog.LevelWarn, "an unused derived branch holds commits of others, and is kept",
				slog.String("repo", t.repo.URL), slog.String("branch", branch))
			continue
		}
		t.queue.owner.opt.Log.LogAttrs(ctx, slog.LevelWarn, "a derived branch that someone else changed is repaired",
			slog.String("repo", t.repo.URL), slog.String("branch", branch), slog.String("of", t.queue.key.branch))
	}
	for _, r := range reqs {
		if r.job.OnDerived != nil {
			r.job.OnDerived(t.derivedResultOf(r.job))
		}
	}
}

// derivedResultOf returns the part of the result that concerns one job.
func (t *commitAttempt) derivedResultOf(j Job) git.DerivedResult {
	out := git.DerivedResult{Commit: t.derivedResult.Commit, Heads: make(map[string]git.Hash, len(j.Derived))}
	for _, v := range j.Derived {
		if id := t.derivedResult.Heads[v.Branch]; id != "" {
			out.Heads[v.Branch] = id
		}
	}
	out.Removed = slices.DeleteFunc(slices.Clone(t.derivedResult.Removed), func(branch string) bool { return !slices.Contains(j.RemoveDerived, branch) })
	theirs := func(branch string) bool { return out.Heads[branch] == "" }
	out.Created = slices.DeleteFunc(slices.Clone(t.derivedResult.Created), theirs)
	out.Diverged = slices.DeleteFunc(slices.Clone(t.derivedResult.Diverged), theirs)
	return out
}
